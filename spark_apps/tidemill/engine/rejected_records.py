"""The quarantine as an output: what the tasks of a batch rejected, committed before any of its rows."""

from __future__ import annotations

from dataclasses import replace

from tidemill.engine.broken_lines import BrokenLines
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.batch_commit import BatchCommit, StepDone, Written, nothing_more
from tidemill.sinks.table_log import TableLog


class RejectedRecords:
    """Takes rejected records from the tasks and commits them.

    Args:
        quarantine: Where the tasks put them.
        lines: Finds the lines of broken records of text files; None for other sources.
        step_done: Told of the commit.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        lines: BrokenLines | None,
        step_done: StepDone = nothing_more,
    ) -> None:
        self._quarantine = quarantine
        self._lines = lines
        self._step_done = step_done
        self._log = TableLog(quarantine.path)

    def forget(self) -> None:
        """Drop what tasks of a batch that failed have handed in."""
        self._quarantine.forget()

    def look(self, entry: LedgerEntry) -> LedgerEntry | None:
        """The quarantine's entry of the batch, if it holds it."""
        found = self._log.look(BatchCommit.of(entry, QUARANTINE_OUTPUT))
        return None if found is None else found.entry

    def commit(self, entry: LedgerEntry) -> Written:
        """Commit the batch's rejected records, unless they are there; `rows` is how many the batch has."""
        parts = self._quarantine.take()
        if not parts:
            return Written(False, 0)
        parts = parts if self._lines is None else self._lines.told(parts)
        self._log.create(QUARANTINE_SCHEMA)
        written = self._log.commit(parts, BatchCommit.of(entry, QUARANTINE_OUTPUT), QUARANTINE_SCHEMA)
        self._step_done("quarantined")
        return replace(written, rows=sum(part.rows for part in parts))
