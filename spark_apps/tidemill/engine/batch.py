"""One micro-batch: every output once, then the quarantine. Called by Spark's foreachBatch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from tidemill.engine.drain import Drain
from tidemill.engine.outputs import Output
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import QUARANTINE_OUTPUT, transaction_id
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.table_log import TableLog


class DrainedError(Exception):
    """Ends the query before a batch that must not start any more."""


@dataclass(frozen=True)
class BatchResult:
    """What one batch wrote, by output; None where a writer does not count."""

    batch_id: int | None
    written: dict[str, Written]
    quarantined: int


class BatchProcessor:
    """Writes each batch to all outputs.

    Args:
        outputs: In order.
        quarantine: Where tasks put rejected records.
        entry_for: Makes the batch's ledger entry, without an output's name.
        drain: Asked before each batch.
        on_result: Told what a batch wrote.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        quarantine: Quarantine,
        entry_for: Callable[[int], LedgerEntry],
        drain: Drain,
        on_result: Callable[[BatchResult], None],
    ) -> None:
        self._outputs = outputs
        self._quarantine = quarantine
        self._quarantine_log = TableLog(quarantine.path)
        self._entry_for = entry_for
        self._drain = drain
        self._on_result = on_result
        self.failure: BaseException | None = None
        self.last_finished: int | None = None
        # Called before a batch is refused because of a drain, which Spark takes for a failure of the query.
        self.before_refusal: Callable[[], None] = lambda: None
        # Held while a batch writes.
        self.writing = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; keeps an error, which Spark would turn into text."""
        try:
            if self._drain.requested:
                self.before_refusal()
                raise DrainedError
            with self.writing:
                self._on_result(self._write(frame, batch_id))
                self.last_finished = batch_id
        except BaseException as error:
            self.failure = error
            raise

    def _write(self, frame: DataFrame, batch_id: int) -> BatchResult:
        """Write one batch.

        1. Each output, in order. An output that has the batch already writes nothing.
        2. If none of them read all rows (the batch is a repeated one), read them: state of stateful
           operators and rejected records come into being only by reading.
        3. Commit the rejected records. A crash before this step repeats the batch, and step 2 brings
           them back.
        """
        self._quarantine.take()
        entry = self._entry_for(batch_id)
        shared = frame.persist(StorageLevel.MEMORY_AND_DISK) if self._needs_sharing() else frame
        try:
            # 1.
            written = {output.name: _write_output(output, shared, entry) for output in self._outputs}
            # 2.
            if not any(written[o.name].committed and o.passes for o in self._outputs):
                shared.write.format("noop").mode("overwrite").save()
        finally:
            if self._needs_sharing():
                shared.unpersist()
        # 3.
        return BatchResult(batch_id, written, self._commit_quarantine(entry, batch_id))

    def _needs_sharing(self) -> bool:
        """Whether the batch is not read exactly once; a stateful query must be evaluated exactly once."""
        return [output.passes for output in self._outputs] != [1]

    def _commit_quarantine(self, entry: LedgerEntry, batch_id: int) -> int:
        parts = self._quarantine.take()
        if not parts:
            return 0
        self._quarantine_log.create(QUARANTINE_SCHEMA)
        rows = sum(part.rows for part in parts)
        named = entry.model_copy(update={"output": QUARANTINE_OUTPUT, "rows": rows})
        app_id = transaction_id(entry.pipeline, entry.generation or "", QUARANTINE_OUTPUT)
        written = self._quarantine_log.commit(parts, BatchCommit(app_id, batch_id, named), QUARANTINE_SCHEMA)
        return rows if written.committed else 0


def _write_output(output: Output, frame: DataFrame, entry: LedgerEntry) -> Written:
    rows = frame if output.where is None else frame.where(output.where)
    return output.write(rows, entry.model_copy(update={"output": output.name}))
