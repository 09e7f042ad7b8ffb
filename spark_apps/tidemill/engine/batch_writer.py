"""Writing one micro-batch: rejected records first, then every output, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from tidemill.engine.half_written import check_same_code, check_same_tables
from tidemill.engine.outputs import Output
from tidemill.engine.rejected_records import RejectedRecords
from tidemill.engine.state_operators import StateOperators, late_rows
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.sinks.batch_commit import BatchCommit, Staged, Written


@dataclass(frozen=True)
class BatchResult:
    """What one batch wrote, by output, and how many records it rejected or dropped as late."""

    batch_id: int | None
    written: dict[str, Written]
    quarantined: int
    late: int = 0


class BatchWriter:
    """Writes the batches of one query.

    Args:
        outputs: Tables are written first, then the others, each in order.
        rejected: The quarantine; None for a pipeline that rejects no record.
        state: Finds the stateful operators.
        tables_read: Tells which version of each joined table the rows of a batch were made with; None for a
            pipeline that joins none.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        rejected: RejectedRecords | None,
        state: StateOperators,
        tables_read: Callable[[DataFrame], dict[str, int]] | None = None,
    ) -> None:
        # Tables first: they tell a later driver what a batch was begun with; topics and files cannot.
        self._outputs = sorted(outputs, key=lambda output: output.log is None)
        self._rejected = rejected
        self._state = state
        self._tables_read = tables_read
        # Spark repeats a batch only as the first one of a query.
        self._may_be_repeated = True

    def write(self, frame: DataFrame, entry: LedgerEntry) -> BatchResult:
        """Write one batch.

        1. Look which outputs hold the batch already; a driver that must not write ends here.
        2. Read all rows, once: into files of the arrow writer, else into the cache. Rejected records, late
           rows and the state of stateful operators come into being by reading.
        3. Commit the rejected records. As they are first, a table that holds a batch proves that nothing of
           it is missing in the quarantine.
        4. Commit each output, in order. After a crash in between the batch is repeated: what is there is
           left alone, and only the same code, with the same versions of joined tables, may write the rest.
        """
        # 1.
        held = self._look(entry)
        left = [output for output in self._outputs if output.name not in held]
        dropped = self._state.of(frame)
        unwritten = [*(output.name for output in left), *(["state"] if dropped else [])]
        check_same_code(entry, held, unwritten)
        if self._tables_read is not None:
            entry = entry.model_copy(update={"tables_read": self._tables_read(frame)})
            check_same_tables(entry, held, unwritten)
        written = {name: Written(False) for name in held if name != QUARANTINE_OUTPUT}
        if not left and not dropped:
            return BatchResult(entry.batch_id, written, 0, 0)
        with self._read(frame, left, bool(dropped)) as staged:
            # 3.
            rejected = Written(False, 0) if self._rejected is None else self._rejected.commit(entry)
            late = late_rows(dropped)
            # 4.
            complete = entry.model_copy(update={"quarantined_rows": rejected.rows, "late_rows": late})
            for name, commit in staged.items():
                written[name] = commit(BatchCommit.of(complete, name))
        is_new = any(output.committed for output in written.values())
        quarantined = (rejected.rows or 0) if rejected.committed else 0
        return BatchResult(entry.batch_id, written, quarantined, late if is_new else 0)

    def _look(self, entry: LedgerEntry) -> dict[str, LedgerEntry]:
        """Entries of the batch that are committed, by output."""
        found = {
            o.name: o.log.look(BatchCommit.of(entry, o.name)) for o in self._outputs if o.log is not None
        }
        held = {name: commit.entry for name, commit in found.items() if commit and commit.entry}
        if self._may_be_repeated and self._rejected is not None:
            rejected = self._rejected.look(entry)
            held |= {} if rejected is None else {QUARANTINE_OUTPUT: rejected}
        self._may_be_repeated = False
        return held

    @contextmanager
    def _read(self, frame: DataFrame, left: Sequence[Output], stateful: bool) -> Iterator[dict[str, Staged]]:
        """Step 2; what is ready to be committed, by output, in order."""
        if self._rejected is not None:
            self._rejected.forget()
        extra = (stateful or self._rejected is not None) and not any(o.reads_when_staging for o in left)
        # State must be computed exactly once, and reading twice costs twice.
        shared = sum(max(1, output.passes) for output in left) + extra > 1
        rows = frame.persist(StorageLevel.MEMORY_AND_DISK) if shared else frame
        try:
            staged = {o.name: o.stage(o.rows.of(rows)) for o in left}
            if extra:
                rows.write.format("noop").mode("overwrite").save()
            yield staged
        finally:
            if shared:
                rows.unpersist()
