"""What Spark notes of a query without batches, as `commits/N`: all that proves its progress."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.sinks.batch_commit import Written

# How often the watch looks, in seconds: so long may two drivers write after a newer one has started, and a
# look is two small requests to the storage.
LOOK_SECONDS = 1.0


class CommitWatch:
    """Looks whether a newer driver has started, and reports what Spark has noted.

    Args:
        run: Whose query.
        reporter: Told of each note.
        output: Name of the one sink.
        clock: Monotonic, in seconds.
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
        """Look, if the last look is long enough ago.

        Raises:
            FencedError: TIDE-RUN-001.
        """
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        self._run.check_epoch()
        self.find_commits()

    def find_commits(self) -> int:
        """Report the notes since the last call; the number of the newest, -1 before the first."""
        before = self.committed
        while self._run.store.identity(f"{self._run.checkpoint}/commits/{self.committed + 1}") is not None:
            self.committed += 1
        if self.committed > before:
            written = {self._output: Written(True)}
            self.reporter.committed(BatchResult(self.committed, written, 0), self.committed - before)
        return self.committed
