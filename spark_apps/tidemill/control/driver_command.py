"""The command line of a driver process: one place for the caller and the callee."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from tidemill.spec.project import Environment

Mode = Literal["stream", "incremental", "backfill"]


@dataclass(frozen=True)
class DriverRun:
    """One run of a driver.

    Args:
        pipeline: Its name.
        mode: stream, incremental or backfill.
        run_id: Names this run in status, receipts and logs; the same id never runs twice at once.
        arguments: Further arguments, such as a backfill's `--from` and `--to`.
    """

    pipeline: str
    mode: Mode
    run_id: str
    arguments: tuple[str, ...] = ()


def driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Arguments that start the driver on this machine with this interpreter."""
    return [
        *(sys.executable, "-m", "tidemill.engine.driver"),
        *("--project", str(environment.project.folder)),
        *("--env", str(environment.file)),
        *("--pipeline", run.pipeline),
        *("--mode", run.mode),
        *("--run-id", run.run_id),
        *run.arguments,
    ]
