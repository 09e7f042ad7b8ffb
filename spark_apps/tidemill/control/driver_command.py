"""The command line of a driver process, or of a part of a verb: one place for the caller and the callee."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # Each driver's process imports this module before it becomes the driver: without the models of the conf
    # files it starts a tenth of a second sooner.
    from tidemill.spec.project import Environment

# `verb`: a part of a verb that only Spark can do (spark_part.py).
Mode = Literal["stream", "incremental", "backfill", "verb"]


@dataclass(frozen=True)
class DriverRun:
    """One run of a driver.

    Args:
        pipeline: Its name.
        mode: stream, incremental, backfill, or verb.
        run_id: Names this run in status, receipts and logs; the same id never runs twice at once.
        arguments: Further arguments, such as a backfill's `--from` and `--to`.
        module: What of the engine the process runs.
    """

    pipeline: str
    mode: Mode
    run_id: str
    arguments: tuple[str, ...] = ()
    module: str = "driver"

    @property
    def words(self) -> tuple[str, ...]:
        """What its command line says beside project and environment."""
        mode = () if self.mode == "verb" else ("--mode", self.mode)
        return ("--pipeline", self.pipeline, *mode, "--run-id", self.run_id, *self.arguments)


def driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Arguments that start the driver on this machine with this interpreter."""
    return [
        *(sys.executable, "-m", f"tidemill.engine.{run.module}"),
        *("--project", str(environment.project.folder)),
        *("--env", str(environment.file)),
        *run.words,
    ]
