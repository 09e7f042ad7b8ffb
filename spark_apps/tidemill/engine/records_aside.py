"""Records that were set aside, as an output: what the tasks of a batch hand in, committed before its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.ledger.entry import LedgerEntry
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejected_files import NOTHING_KNOWN, Known
from tidemill.sinks.batch_commit import BatchCommit, StepDone, Written, nothing_more
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import PartFile

# Steps by output.
_STEPS = {QUARANTINE_OUTPUT: "quarantined", LATE_OUTPUT: "late_set_aside"}


class RecordsAside:
    """Takes rejected, or late, records from the tasks and commits them.

    Args:
        output: One of `ASIDE_OUTPUTS`.
        table: Where the tasks put them.
        may_come: Whether this driver sets any aside; else it only looks what another one has.
        step_done: Told of the commit.
    """

    def __init__(
        self,
        output: str,
        table: Quarantine,
        *,
        may_come: bool = True,
        step_done: StepDone = nothing_more,
    ) -> None:
        self.output = output
        self.may_come = may_come
        self.table = table
        self._step_done = step_done
        # Of a past that is read again: what was set aside when it was read first.
        self.known: Known = NOTHING_KNOWN
        self._log = TableLog(table.path)

    def forget(self) -> None:
        """Drop what tasks of a batch that failed have handed in."""
        self.table.forget()

    def look(self, entry: LedgerEntry) -> LedgerEntry | None:
        """The table's entry of the batch, if it holds it."""
        found = self._log.look(BatchCommit.of(entry, self.output))
        return None if found is None else found.entry

    def commit(self, entry: LedgerEntry, more: Sequence[PartFile] = ()) -> Written:
        """Commit the batch's records, unless they are there; `rows` is how many the batch has.

        Args:
            entry: Of the batch.
            more: Files of the table with records that no task has handed in.
        """
        parts = [*self.table.take(self.known), *more]
        if not parts:
            return Written(False, 0)
        self._log.create(self.table.schema)
        written = self._log.commit(parts, BatchCommit.of(entry, self.output), self.table.schema)
        self._step_done(_STEPS[self.output])
        return replace(written, rows=sum(part.rows for part in parts))
