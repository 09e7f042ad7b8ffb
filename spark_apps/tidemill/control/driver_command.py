"""The command line of a driver process, or of a part of a verb: one place for the caller and the callee."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # Each driver's process imports this module before it becomes the driver: without the models of the conf
    # files it starts a tenth of a second sooner.
    from tidemill.spec.project import Environment

# Parts (spark_part.py) are what no driver does and needs the drivers' place. `verb`: of a verb, which changes
# the pipeline. `aside`: what works on a copy, and keeps no verb waiting.
Mode = Literal["stream", "incremental", "backfill", "verb", "aside"]

# Parts that work on a copy.
_ASIDE = ("shadow", "game_day")

# Longest game day: five starts of drivers and a backfill, none of which is waited for longer than 10 minutes.
GAME_DAY_TIME = timedelta(hours=2)

# Where a part is not `tidemill.engine.<part>`.
_PROGRAMS = {"game_day": "tidemill.control.game_day.part"}


def mode_of_part(module: str) -> Mode:
    """In which slot a part runs."""
    return "aside" if module in _ASIDE else "verb"


@dataclass(frozen=True)
class DriverRun:
    """One run of a driver.

    Args:
        pipeline: Its name.
        mode: stream, incremental, backfill, or that of a part.
        run_id: Names this run in status, receipts and logs; the same id never runs twice at once.
        arguments: Further arguments, such as a backfill's `--from` and `--to`.
        module: The part that the process runs, or `driver`.
        dag_run: The DAG run that starts it, where its id does not tell: each line of its log says so.
    """

    pipeline: str
    mode: Mode
    run_id: str
    arguments: tuple[str, ...] = ()
    module: str = "driver"
    dag_run: str = ""

    @property
    def is_part(self) -> bool:
        """Whether it is no driver."""
        return self.mode in ("verb", "aside")

    @property
    def program(self) -> str:
        """The Python module that the process runs."""
        return _PROGRAMS.get(self.module, f"tidemill.engine.{self.module}")

    @property
    def drivers_within(self) -> int:
        """How many drivers it starts in its own place, at most at once: a copy's stream, and its backfill."""
        return 2 if self.module == "game_day" else 0

    @property
    def deadline(self) -> timedelta | None:
        """After which it is ended; None for what takes as long as it takes."""
        return GAME_DAY_TIME if self.module == "game_day" else None

    @property
    def words(self) -> tuple[str, ...]:
        """What its command line says beside project and environment."""
        mode = () if self.is_part else ("--mode", self.mode)
        return ("--pipeline", self.pipeline, *mode, "--run-id", self.run_id, *self.arguments)


def driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Arguments that start the driver on this machine with this interpreter."""
    sources = environment.project.own_sources
    return [
        *(sys.executable, "-m", run.program),
        *("--project", str(environment.project.folder)),
        *("--env", str(environment.file)),
        *(() if sources is None else ("--sources", str(sources))),
        *run.words,
    ]
