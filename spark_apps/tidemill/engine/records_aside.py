"""Records that were set aside, as an output: the tasks of a batch report them, committed before its rows."""

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

# Step names by output.
_STEPS = {QUARANTINE_OUTPUT: "quarantined", LATE_OUTPUT: "late_set_aside"}


class RecordsAside:
    """Receives rejected or late records from the tasks and commits them.

    Args:
        output: One of `ASIDE_OUTPUTS`.
        table: Table into which the tasks write them.
        may_come: True if this driver sets records aside; otherwise it only checks the commits of others.
        step_done: Called after the commit.
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
        # If a past is read again (warm start), the records that were set aside when it was first read.
        self.known: Known = NOTHING_KNOWN
        self._log = TableLog(table.path)

    def forget(self) -> None:
        """Drop records that tasks of a failed batch have reported."""
        self.table.forget()

    def look(self, entry: LedgerEntry) -> LedgerEntry | None:
        """Return the table's entry of the batch, if it holds the batch."""
        found = self._log.look(BatchCommit.of(entry, self.output))
        return None if found is None else found.entry

    def commit(self, entry: LedgerEntry, more: Sequence[PartFile] = ()) -> Written:
        """Commit the batch's records, unless they are committed already; `rows` is the number in the batch.

        Args:
            entry: Entry of the batch.
            more: Files of the table with records that no task has reported.
        """
        parts = [*self.table.take(self.known), *more]
        if not parts:
            return Written(False, 0)
        self._log.create(self.table.schema)
        written = self._log.commit(parts, BatchCommit.of(entry, self.output), self.table.schema)
        self._step_done(_STEPS[self.output])
        return replace(written, rows=sum(part.rows for part in parts))
