"""The callback for Spark's foreachBatch: starts or refuses each batch, and keeps its result."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import DataFrame

from tidemill.engine.batch_writer import BatchResult, BatchWriter
from tidemill.engine.drain import Drain
from tidemill.engine.half_written import Begun, StartAgainError
from tidemill.engine.turn import Waiting
from tidemill.ledger.entry import LedgerEntry


class DrainedError(Exception):
    """Ends the query before a batch that must not start after a drain request."""


class BatchProcessor:
    """The foreachBatch callback.

    Args:
        writer: Writes the batch.
        entry_for: Returns the batch's ledger entry, without an output name.
        drain: Checked before each batch.
        others: Lets a backfill commit first.
        on_result: Called with the result of each batch.
    """

    def __init__(
        self,
        writer: BatchWriter,
        entry_for: Callable[[int], LedgerEntry],
        drain: Drain,
        others: Waiting,
        on_result: Callable[[BatchResult], None],
    ) -> None:
        self._writer = writer
        self._entry_for = entry_for
        self._drain = drain
        self._others = others
        self._on_result = on_result
        self.failure: BaseException | None = None
        self.last_finished: int | None = None
        # The batch that must finish with the tables it began with; None after it is written.
        self.begun: Begun | None = None
        # Called before a batch is refused because of a drain or a new start, which Spark treats as a query
        # failure.
        self.before_refusal: Callable[[], None] = lambda: None
        # Held while a batch writes.
        self.writing = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; keep any error, because Spark would convert it to text."""
        try:
            self._others.wait()
            if self._drain.requested:
                self.before_refusal()
                raise DrainedError
            if self.begun is not None and batch_id > self.begun.batch_id:
                raise StartAgainError
            with self.writing:
                self._on_result(self._writer.write(frame, self._entry_for(batch_id)))
                self.last_finished = batch_id
        except BaseException as error:
            if isinstance(error, StartAgainError):
                self.before_refusal()
            self.failure = error
            raise
