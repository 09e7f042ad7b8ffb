"""A watch on `commits/N` of a query without batches, the only proof of its progress."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.sinks.batch_commit import Written

# Interval between checks, in seconds. Two drivers may write at once for this long after a newer one has
# started. Each check is two small requests to the storage.
LOOK_SECONDS = 1.0


class CommitWatch:
    """Check for a newer driver, and report the commits of Spark.

    Args:
        run: The run.
        reporter: Called for each commit.
        output: Name of the only sink.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, run: RunContext, reporter: Reporter, output: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.reporter = reporter
        self._run = run
        self._output = output
        self._clock = clock
        self._looked_at = clock()
        last = CheckpointBatches(run.store, run.checkpoint).last_committed()
        self.committed = -1 if last is None else last

    def look(self) -> None:
        """Check for a newer driver and for commits, if the last check is at least `LOOK_SECONDS` old.

        Raises:
            FencedError: TIDE-RUN-001.
        """
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        self._run.check_epoch()
        self.find_commits()

    def find_commits(self) -> int:
        """Report commits since the last call; return the newest batch number, -1 before the first."""
        before = self.committed
        while self._run.store.identity(f"{self._run.checkpoint}/commits/{self.committed + 1}") is not None:
            self.committed += 1
        if self.committed > before:
            written = {self._output: Written(True)}
            self.reporter.committed(BatchResult(self.committed, written, 0), self.committed - before)
        return self.committed
