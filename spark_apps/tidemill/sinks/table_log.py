"""One table's log for a writer: transaction versions, columns, and commits of data files.

delta-rs opens a table by listing its log; after that, the table is followed by the names of the next commits.
A commit has four steps: refresh, compare, check, and create the file of the next version. On a conflict, they
are repeated. Of several writers, only one creates the file, on every store. Every 100th commit, and every
commit to a table with further features, is made by delta-rs, which then makes a log checkpoint and deletes
expired files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError

from tidemill.errors import DataError, UnavailableError
from tidemill.ledger.lost_race import LostRaceError, Race
from tidemill.ledger.read import Commit
from tidemill.names import APPEND_ONLY
from tidemill.payload.column_changes import ColumnChanges, column_changes
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.commit_file import adding_files
from tidemill.sinks.library_commit import add_files, is_for_library
from tidemill.sinks.log_view import LogView, open_view
from tidemill.sinks.nesting import check_levels
from tidemill.sinks.repeated_batch import check_transaction, newest_own, same_batch, stands, taken_back
from tidemill.sinks.row_rules import row_rules
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile

# Number of commits that are first searched for one of this pipeline's own. A repeated batch is among the
# newest few, unless other writers commit constantly or a RESTORE undid it; then the whole log is read.
RECENT_COMMITS = 20

# If this is set, Delta forgets transaction versions, and only the ledger shows what was written.
_EXPIRY = "delta.setTransactionRetentionDuration"


class TableLog:
    """The log of the Delta table at `path`; follows it incrementally.

    Args:
        path: Path of the table.
        properties: Properties of the table if it must be created.
    """

    def __init__(self, path: str, properties: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.properties = dict(properties or {})
        self._view: LogView | None = None
        # The identity of the view's newest commit file.
        self._newest_file: str | None = None
        # The newest batch that this log has seen in the table, its version, and the version up to which the
        # batch is known to be in the table. The last is None after the table was opened again.
        self._held: BatchCommit | None = None
        self._held_version = 0
        self._stands_at: int | None = None

    def refresh(self) -> LogView | None:
        """Bring the view of the log up to date; return None while the table does not exist.

        A table that was dropped, or recreated under the same path, is opened again, because its versions
        begin again, and following the old ones would mix two tables. A table is also opened again if a commit
        changed more than rows.
        """
        # In this order: commits are cleared oldest first, so if a commit still exists, no later one was
        # cleared.
        followed = self._identity(following=1) is not None
        if self._view is None or self._identity() != self._newest_file:
            self._open()
        elif not followed:
            return self._view
        elif not self._view.follow():
            self._open()
        self._newest_file = self._identity()
        return self._view

    def _open(self) -> None:
        self._stands_at = None
        self._view = open_view(self.path)

    def _identity(self, following: int = 0) -> str | None:
        return None if self._view is None else self._view.identity(following)

    def create(self, schema: pa.Schema) -> None:
        """Create the table unless it exists; of racing creators one wins, and all continue with its table."""
        check_levels(schema, self.path)
        if self.refresh() is None:
            DeltaTable.create(
                self.path,
                schema=Schema.from_arrow(schema),
                mode="ignore",
                configuration=dict(self.properties),
                storage_options=access_to(self.path).delta_options(),
            )
            if self.refresh() is None:
                raise self._vanished()

    def look(self, commit: BatchCommit) -> Commit | None:
        """Update the view; return the table's commit of a batch, or None if the table does not have it.

        Raises:
            FencedError: TIDE-RUN-003, TIDE-RUN-004, if this driver must not write any more.
            GateRefusedError: TIDE-SINK-006, if this batch, or the last one, was removed from the table.
        """
        view = self.refresh()
        transaction = None if view is None else view.transaction_version(commit.app_id)
        # First, because an operation that closed the id has also restored the table.
        check_transaction(self.path, transaction, commit)
        self._check_held()
        found = self._find(transaction, commit)
        if found is not None:
            self._hold(commit, found.version)
        return found

    def _find(self, transaction: int | None, commit: BatchCommit) -> Commit | None:
        if self._view is None:
            return None
        if transaction is None and _EXPIRY not in self._view.table.metadata().configuration:
            return None
        if transaction is not None and transaction < commit.batch_id:
            return None
        return same_batch(self.path, transaction, self._newest_own(commit), commit)

    def _newest_own(self, commit: BatchCommit) -> Commit | None:
        if self._view is None:
            return None
        recent = newest_own(self._view.commits(RECENT_COMMITS), commit)
        return recent or newest_own(self._view.commits(), commit)

    def _hold(self, commit: BatchCommit, version: int) -> None:
        self._held, self._held_version, self._stands_at = commit, version, self._version()

    def _check_held(self) -> None:
        """Raise an error if the last batch was removed, by a RESTORE or with the whole table."""
        if self._held is not None and self._is_lost(self._held):
            raise taken_back(self.path, self._held)
        self._stands_at = self._version()

    def _is_lost(self, held: BatchCommit) -> bool:
        if self._view is None:
            return True
        if self._stands_at is None:
            return not (
                stands(self._view.commits(RECENT_COMMITS), held) or stands(self._view.commits(), held)
            )
        newer = self._view.commits_after(self._stands_at)
        restores = [commit.restored_to for commit in newer if commit.operation == "RESTORE"]
        return any(version is None or version < self._held_version for version in restores)

    def check_columns(self, expected: pa.Schema, adds_columns: bool = False) -> tuple[str, ...]:
        """Raise an error if the table's columns differ from those that the pipeline writes.

        Args:
            expected: Columns that the pipeline writes.
            adds_columns: True if the table may lack some.

        Returns:
            The columns that the table lacks, by path.

        Raises:
            DataError: TIDE-SINK-001, naming each column that differs; TIDE-SINK-021, if a column is nested
                too deep. Nothing was written.
        """
        check_levels(expected, self.path)
        if self._view is None:
            return ()
        changes = column_changes(self._view.schema, Schema.from_arrow(expected))
        if changes.nothing or (adds_columns and changes.only_adds):
            return changes.added
        raise DataError(
            "TIDE-SINK-001",
            "The table's columns are not those that the pipeline writes. Nothing was written.",
            facts={
                "table": self.path,
                "table_version": self._view.version,
                "missing_in_table": list(changes.added),
                "unknown_in_table": list(changes.removed),
                "other_type": dict(changes.other_type),
            },
            fix=_way_out(changes),
            runbook="table-schema-changed",
        )

    def check_appendable(self, expected: pa.Schema, adds_columns: bool = False) -> tuple[str, ...]:
        """Raise an error for a table to which files with `expected` columns cannot simply be added.

        Returns:
            The columns that the table lacks, as `check_columns`.

        Raises:
            DataError: TIDE-SINK-001 for other columns, TIDE-SINK-003 for rules that only Spark applies.
        """
        lacking = self.check_columns(expected, adds_columns)
        if self._view is not None and (rules := row_rules(self._view.table)):
            raise self._unwritable("; ".join(rules))
        return lacking

    def check_changeable(self) -> None:
        """Raise an error for a table whose rows may not be updated or deleted.

        Raises:
            DataError: TIDE-SINK-025. Nothing was written.
        """
        if self._view is None or self._view.table.metadata().configuration.get(APPEND_ONLY) != "true":
            return
        raise DataError(
            "TIDE-SINK-025",
            "The table takes appends only, and the sink updates or deletes rows. Nothing was written.",
            facts={"table": self.path, "property": f"{APPEND_ONLY}=true"},
            fix=f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false'); or set "
            "`mode: append` for the sink",
            runbook="table-schema-changed",
        )

    def commit(self, parts: Sequence[PartFile], commit: BatchCommit, columns: pa.Schema) -> Written:
        """Commit data files with transaction version and ledger entry, unless the batch is committed.

        Raises:
            UnavailableError: TIDE-SINK-002, if other writers won every attempt; TIDE-SINK-005, if the table
                was dropped in the meantime.
            DataError: If the table was changed in the meantime; see `check_appendable`.
            FencedError, GateRefusedError: As `look`.
        """
        facts = {"table": self.path, "batch_id": commit.batch_id}
        race = Race(
            facts, f"see who writes: tidemill ledger {commit.entry.pipeline}; a repeated batch is safe"
        )
        return race.until_won(lambda: self._commit_once(parts, commit, columns))

    def _commit_once(self, parts: Sequence[PartFile], commit: BatchCommit, columns: pa.Schema) -> Written:
        if self.look(commit) is not None:
            return Written(committed=False)
        if self._view is None:
            raise self._vanished()
        self.check_appendable(columns)
        rows = sum(part.rows for part in parts)
        filled = replace(commit, entry=commit.entry.model_copy(update={"rows": rows}))
        version = self._append(self._view, parts, filled)
        self._landed(filled, version)
        return Written(True, rows, version)

    def _landed(self, commit: BatchCommit, version: int) -> None:
        """Record a commit, and only then refresh, because a RESTORE may have followed at once."""
        self._held, self._held_version, self._stands_at = commit, version, version
        if self.refresh() is None:
            raise self._vanished()
        self._check_held()

    def _append(self, view: LogView, parts: Sequence[PartFile], commit: BatchCommit) -> int:
        """Make the commit; return its version."""
        version, now = view.version + 1, int(time.time() * 1000)
        if is_for_library(view.table, version):
            return self._append_by_library(parts, commit, now, version)
        if not view.create(version, adding_files(parts, commit, now)):
            raise LostRaceError
        return version

    def _append_by_library(
        self, parts: Sequence[PartFile], commit: BatchCommit, now: int, version: int
    ) -> int:
        newest = open_view(self.path)
        if newest is None or newest.version != version - 1:
            raise LostRaceError
        self._view = newest
        try:
            add_files(newest.table, parts, commit, now)
        except CommitFailedError as error:
            # delta-rs raises the same error for a lost race and for an unknown table feature.
            if self.refresh() is not None and self._version() == version - 1:
                raise self._unwritable(str(error)) from error
            raise LostRaceError from error
        except DeltaError as error:
            raise self._unwritable(str(error)) from error
        return self._found(commit)

    def _found(self, commit: BatchCommit) -> int:
        """Return the version of a commit by delta-rs; it is later than requested if delta-rs had to retry."""
        if self.refresh() is None:
            raise self._vanished()
        own = self._newest_own(commit)
        if own is None:
            raise taken_back(self.path, commit)
        return own.version

    def _version(self) -> int | None:
        return None if self._view is None else self._view.version

    def _unwritable(self, reason: str) -> DataError:
        return DataError(
            "TIDE-SINK-003",
            "The arrow writer cannot write this table as it is.",
            facts={"table": self.path, "reason": reason},
            fix="set `writer: spark` for this sink, or take back what was changed by hand",
        )

    def _vanished(self) -> UnavailableError:
        return UnavailableError(
            "TIDE-SINK-005",
            "A table that was there a moment ago cannot be found.",
            facts={"table": self.path},
            fix="see who drops it; the batch is repeated and makes the table again",
        )


def _way_out(changes: ColumnChanges) -> str:
    ways = ["if the table was changed by hand, change it back"]
    if changes.only_adds:
        ways.append("to add the columns to the table, set `schema_evolution: add_columns` for this sink")
    if changes.removed:
        ways.append("a column that the pipeline no longer fills can stay in its result as a null of its type")
    if changes.other_type:
        ways.append(
            "a type is never changed in place, not to a wider one either, since readers of the platform do "
            "not know Delta's type widening: cast it to the table's, or give it a new name"
        )
    return "; ".join([*ways, "else write to a new table and backfill it"])
