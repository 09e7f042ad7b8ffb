"""The command line of a driver process or of an operation's Spark job, shared by caller and callee."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # Each driver's process imports this module first. Without the models of the conf files it starts a tenth
    # of a second sooner.
    from tidemill.spec.project import Environment

# Spark jobs (spark_part.py) do work that no driver does, and run where drivers run. `verb`: a job of an
# operation, which changes the pipeline. `aside`: a job that works on a copy and blocks no operation.
Mode = Literal["stream", "incremental", "backfill", "verb", "aside"]

# Spark jobs that work on a copy.
_ASIDE = ("shadow", "game_day")

# Maximum duration of a game day: five starts of drivers and a backfill, each with a limit of 10 minutes.
GAME_DAY_TIME = timedelta(hours=2)

# Modules of Spark jobs other than `tidemill.engine.<part>`.
_PROGRAMS = {"game_day": "tidemill.control.game_day.part"}


def mode_of_part(module: str) -> Mode:
    """Return the slot in which a Spark job runs."""
    return "aside" if module in _ASIDE else "verb"


@dataclass(frozen=True)
class DriverRun:
    """One run of a driver.

    Args:
        pipeline: Its name.
        mode: stream, incremental, backfill, or the mode of a Spark job.
        run_id: Id of this run in status, receipts and logs; the same id never runs twice at the same time.
        arguments: Further arguments, such as a backfill's `--from` and `--to`.
        module: The Spark job that the process runs, or `driver`.
        dag_run: The DAG run that starts it, if the run id does not contain it; added to each log line.
    """

    pipeline: str
    mode: Mode
    run_id: str
    arguments: tuple[str, ...] = ()
    module: str = "driver"
    dag_run: str = ""

    @property
    def is_part(self) -> bool:
        """Return True if it is a Spark job of an operation and not a driver."""
        return self.mode in ("verb", "aside")

    @property
    def program(self) -> str:
        """Return the Python module that the process runs."""
        return _PROGRAMS.get(self.module, f"tidemill.engine.{self.module}")

    @property
    def drivers_within(self) -> int:
        """Return the maximum number of drivers in its own pod: a copy's stream and its backfill."""
        return 2 if self.module == "game_day" else 0

    @property
    def deadline(self) -> timedelta | None:
        """Return the time after which it is killed; None without a limit."""
        return GAME_DAY_TIME if self.module == "game_day" else None

    @property
    def words(self) -> tuple[str, ...]:
        """Return its arguments, without project and environment."""
        mode = () if self.is_part else ("--mode", self.mode)
        return ("--pipeline", self.pipeline, *mode, "--run-id", self.run_id, *self.arguments)


def driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the command that starts the driver on this machine with this interpreter."""
    sources = environment.project.own_sources
    return [
        *(sys.executable, "-m", run.program),
        *("--project", str(environment.project.folder)),
        *("--env", str(environment.file)),
        *(() if sources is None else ("--sources", str(sources))),
        *run.words,
    ]
