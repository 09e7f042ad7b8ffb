"""Spark's foreachBatch: lets a batch begin, or not, and keeps how it ended."""

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
    """Ends the query before a batch that must not start any more."""


class BatchProcessor:
    """Called by Spark for each batch.

    Args:
        writer: Writes it.
        entry_for: Makes the batch's ledger entry, without an output's name.
        drain: Asked before each batch.
        others: Lets a backfill commit first.
        on_result: Told what a batch wrote.
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
        # The batch to finish with the tables that it was begun with; none after it is written.
        self.begun: Begun | None = None
        # Called before a batch is refused because of a drain or a new start, which Spark takes for a failure
        # of the query.
        self.before_refusal: Callable[[], None] = lambda: None
        # Held while a batch writes.
        self.writing = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; keeps an error, which Spark would turn into text."""
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
