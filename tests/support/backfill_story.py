"""Backfills by real drivers next to a live one, killed at their steps while tables are compacted."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tests.support.driver_process import DriverProcess, Drivers
from tests.support.lake import LakePipeline
from tests.support.stepped_driver import STEP, stepped_driver_command
from tidemill.backfill.bounds import Bounds
from tidemill.backfill.chunks import parse_chunk
from tidemill.backfill.manner import Manner
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.planning import plan_backfill

# Seconds for a backfill of a few thousand records, Spark's start included; about 20 on two idle cores.
BACKFILL_TIMEOUT_SECONDS = 300.0

# OPTIMIZE commits per table: each may cost a backfill one of its attempts, which take seconds.
MOST_COMPACTIONS = 8
SECONDS_BETWEEN_COMPACTIONS = 3.0

# Steps that every backfill takes, and those around its tables where records can be rejected.
FIRST_STEPS = ("checked", "offsets_found", "quarantine_added")
LAST_STEP = "quarantine_dropped"


@dataclass(frozen=True)
class Backfills:
    """Backfills of one pipeline.

    Args:
        drivers: Drivers of the project.
        pipeline: The pipeline.
        chunk: Size of their chunks; None for all at once.
        timeout_seconds: Maximum run time of a driver.
    """

    drivers: Drivers
    pipeline: LakePipeline
    chunk: str | None = None
    timeout_seconds: float = BACKFILL_TIMEOUT_SECONDS

    def plan(self, bounds: Bounds) -> BackfillPlan:
        """Plan as the command line does, after a live driver has analysed the transform."""
        store, manner = self.pipeline.lake.store, Manner(parse_chunk(self.chunk))
        return plan_backfill(store, self.pipeline.resolved, bounds, self._was_analysed, manner)

    def steps(self) -> tuple[str, ...]:
        """Return all steps in order. Those of the chunk are the first chunk's."""
        tables = [f"replaced {sink.table}" for sink in self.pipeline.resolved.spec.delta_sinks]
        return (*FIRST_STEPS, *tables, LAST_STEP)

    def kill_at(self, plan: BackfillPlan, step: str) -> None:
        """Begin a plan, and kill its driver at a step."""
        assert self.try_to_kill_at(plan, step), step

    def try_to_kill_at(self, plan: BackfillPlan, step: str) -> bool:
        """Begin a plan, and kill its driver at a step. If earlier drivers have passed the step, complete it.

        Returns:
            True if the driver was killed.
        """
        variables = {**self.drivers.variables, STEP: step}
        stepped = replace(self.drivers, variables=variables, command=stepped_driver_command)
        driver = self._started(stepped, plan)
        code = driver.wait(self.timeout_seconds)
        assert code in (0, -signal.SIGKILL), f"{step}: {driver.output[-3000:]}"
        return code != 0

    def try_to_kill_after(self, plan: BackfillPlan, seconds: float, python_only: bool = False) -> bool:
        """Begin a plan, and kill its driver after this time; return True if it was still running."""
        driver = self._started(self.drivers, plan)
        try:
            code = driver.wait(seconds)
        except subprocess.TimeoutExpired:
            if python_only:
                driver.kill_python_only()
            else:
                driver.kill()
            return True
        assert code == 0, driver.output[-3000:]
        return False

    def carry_out(self, plan: BackfillPlan) -> None:
        """Carry a plan out to its end."""
        driver = self._started(self.drivers, plan)
        assert driver.wait(self.timeout_seconds) == 0, driver.output[-3000:]

    def carry_out_killed_at(self, plan: BackfillPlan, steps: Sequence[str]) -> None:
        """Carry out a plan after a kill at each step."""
        for step in steps:
            self.kill_at(plan, step)
        self.carry_out(plan)

    def _started(self, drivers: Drivers, plan: BackfillPlan) -> DriverProcess:
        return drivers.start(self.pipeline.name, "backfill", "--plan", plan.digest)

    def _was_analysed(self) -> None:
        raise AssertionError("the live driver has not kept what its transform's rows are made of")


def random_windows(
    chance: random.Random, first_start: datetime, closed_until: datetime, window: timedelta
) -> tuple[datetime, datetime]:
    """Return the start of a random closed window, and the end of it or of a later closed one."""
    closed = (closed_until - first_start) // window
    first, last = sorted(chance.sample(range(closed + 1), 2))
    return first_start + first * window, first_start + last * window


@dataclass
class Compaction:
    """Compacts tables again and again, as their maintenance does, up to a number of times.

    Args:
        tables: Folders of the tables. Clustered tables are skipped, because only Spark compacts them.
        seconds_between: Interval between two compactions.
        most: OPTIMIZE commits per table.
        commits: OPTIMIZE commits by table.
        lost: Races lost to other writers.
    """

    tables: Sequence[Path]
    seconds_between: float = SECONDS_BETWEEN_COMPACTIONS
    most: float = MOST_COMPACTIONS
    commits: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(self.seconds_between):
            for table in self.tables:
                if self.commits[table.name] < self.most and (table / "_delta_log").exists():
                    self._compact(table)

    def _compact(self, table: Path) -> None:
        try:
            delta = DeltaTable(str(table))
            if "clustering" in (delta.protocol().writer_features or ()):
                return
            found = delta.optimize.compact()
        except DeltaError:
            self.lost += 1
            return
        self.commits[table.name] += found["numFilesRemoved"] > 0


@contextmanager
def compacting(*tables: Path, **pace: float) -> Iterator[Compaction]:
    """Compact tables during a `with` block."""
    stop, compaction = threading.Event(), Compaction(tables, **pace)
    thread = threading.Thread(target=compaction.run, args=(stop,))
    thread.start()
    try:
        yield compaction
    finally:
        stop.set()
        thread.join()
