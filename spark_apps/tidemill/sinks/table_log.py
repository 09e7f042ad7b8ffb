"""One table's log as a writer needs it: transaction versions, columns, and commits of data files.

Reads and commits go through delta-rs, whose commit has one winner on every store. It stores
transaction versions but does not skip a repeated one, and refuses a commit whose app id another writer
used since its snapshot; so every commit is: refresh, compare, check, commit, and on a conflict once more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from tidemill.errors import DataError, UnavailableError
from tidemill.ledger.lost_race import LostRaceError, Race
from tidemill.ledger.read import Commit, commits_of
from tidemill.payload.column_changes import ColumnChanges, column_changes
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.repeated_batch import check_transaction, newest_own, same_batch, taken_back
from tidemill.sinks.row_rules import row_rules
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile
from tidemill.storage.store import Store

# Commits read first to find one of our own: a batch that is repeated is among the newest few, unless others
# write without end or a RESTORE took it back; then the whole log is read.
RECENT_COMMITS = 20

# delta-rs would list the whole log after each commit to find files that have expired: a price that grows with
# the log. It frees up to a log checkpoint, and every 100th version has one, so little would go in between.
LOG_CLEANUP_EVERY = 100

# Where this is set, Delta forgets transaction versions, and the ledger alone tells what was written.
_EXPIRY = "delta.setTransactionRetentionDuration"


class TableLog:
    """The log of the Delta table at `path`; follows it incrementally.

    Args:
        path: Of the table.
        properties: What the table is made with if it is not there yet.
    """

    def __init__(self, path: str, properties: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.properties = dict(properties or {})
        self._table: DeltaTable | None = None
        # The files of the table that the view is of, and the identity of its newest commit file.
        self._files: Store | None = None
        self._newest_file: str | None = None
        # The newest batch that this log has seen in the table, its version, and the version up to which it is
        # known to stand; that is None once the table was opened anew.
        self._held: BatchCommit | None = None
        self._held_version = 0
        self._stands_at: int | None = None

    def refresh(self) -> DeltaTable | None:
        """Bring the view of the log up to date; None while there is no table.

        A table that was dropped, or dropped and made again under the same path, is opened anew: its
        versions begin again, and following them from the old ones would mix two tables.

        Where no commit follows the newest one that is known, nothing is listed: on a local disk that takes
        the longer, the more commits there are.
        """
        # In this order: commits are cleared oldest first, so one that is still there hides no cleared one.
        followed = self._identity(following=1) is not None
        if self._table is None or self._identity() != self._newest_file:
            self._open()
        elif not followed:
            return self._table
        else:
            self._table.update_incremental()
        self._newest_file = self._identity()
        return self._table

    def _open(self) -> None:
        self._table = self._files = self._stands_at = None
        try:
            self._table = DeltaTable(self.path, storage_options=self._options())
        except TableNotFoundError:
            return
        self._files = Store(self.path)

    def _options(self) -> dict[str, str]:
        return access_to(self.path).delta_options()

    def _identity(self, following: int = 0) -> str | None:
        """Of the file of the newest commit that is known, or of one after it; None if there is none."""
        if self._table is None or self._files is None:
            return None
        version = self._table.version() + following
        return self._files.identity(f"{self.path}/_delta_log/{version:020}.json")

    def create(self, schema: pa.Schema) -> DeltaTable:
        """Create the table unless it exists; of racing creators one wins and all go on with its table."""
        table = self.refresh()
        if table is None:
            DeltaTable.create(
                self.path,
                schema=Schema.from_arrow(schema),
                mode="ignore",
                configuration=dict(self.properties),
                storage_options=self._options(),
            )
            table = self.refresh()
        if table is None:
            raise self._vanished()
        return table

    def look(self, commit: BatchCommit) -> Commit | None:
        """Bring the view up to date; the table's commit of a batch, None if it does not hold it.

        Raises:
            FencedError: TIDE-RUN-003, TIDE-RUN-004, if this driver must not write any more.
            GateRefusedError: TIDE-SINK-006, if this batch, or the last one, was taken out of the table.
        """
        table = self.refresh()
        transaction = None if table is None else table.transaction_version(commit.app_id)
        # First: a verb that closed the id has restored the table, too.
        check_transaction(self.path, transaction, commit)
        self._check_held()
        found = self._find(transaction, commit)
        if found is not None:
            self._hold(commit, found.version)
        return found

    def _find(self, transaction: int | None, commit: BatchCommit) -> Commit | None:
        if self._table is None:
            return None
        if transaction is None and _EXPIRY not in self._table.metadata().configuration:
            return None
        if transaction is not None and transaction < commit.batch_id:
            return None
        return same_batch(self.path, transaction, self._newest_own(commit), commit)

    def _newest_own(self, commit: BatchCommit) -> Commit | None:
        if self._table is None:
            return None
        recent = newest_own(commits_of(self.path, self._table, RECENT_COMMITS), commit)
        return recent or newest_own(commits_of(self.path, self._table), commit)

    def _hold(self, commit: BatchCommit, version: int) -> None:
        self._held, self._held_version, self._stands_at = commit, version, self._version()

    def _check_held(self) -> None:
        """Refuse to write on once the last batch was taken out, by a RESTORE or with the whole table."""
        if self._held is not None and self._is_lost(self._held):
            raise taken_back(self.path, self._held)
        self._stands_at = self._version()

    def _is_lost(self, held: BatchCommit) -> bool:
        if self._table is None:
            return True
        if self._stands_at is None:
            newest = self._newest_own(held)
            return newest is None or newest.entry is None or newest.entry.batch_id != held.batch_id
        newer = self._table.version() - self._stands_at
        commits = commits_of(self.path, self._table, newer) if newer > 0 else []
        restores = [commit.restored_to for commit in commits if commit.operation == "RESTORE"]
        return any(version is None or version < self._held_version for version in restores)

    def check_columns(self, expected: pa.Schema, adds_columns: bool = False) -> tuple[str, ...]:
        """Refuse a table whose columns are not those that the pipeline writes.

        Args:
            expected: Columns that the pipeline writes.
            adds_columns: Whether the table may lack some.

        Returns:
            Those that it lacks, by their paths.

        Raises:
            DataError: TIDE-SINK-001, naming each column that differs. Nothing was written.
        """
        if self._table is None:
            return ()
        changes = column_changes(self._table.schema(), Schema.from_arrow(expected))
        if changes.nothing or (adds_columns and changes.only_adds):
            return changes.added
        raise DataError(
            "TIDE-SINK-001",
            "The table's columns are not those that the pipeline writes. Nothing was written.",
            facts={
                "table": self.path,
                "table_version": self._table.version(),
                "missing_in_table": list(changes.added),
                "unknown_in_table": list(changes.removed),
                "other_type": dict(changes.other_type),
            },
            fix=_way_out(changes),
            runbook="table-schema-changed",
        )

    def check_appendable(self, expected: pa.Schema, adds_columns: bool = False) -> tuple[str, ...]:
        """Refuse a table to which files of rows of `expected` cannot simply be added.

        Returns:
            The columns that the table lacks, as `check_columns`.

        Raises:
            DataError: TIDE-SINK-001 for other columns, TIDE-SINK-003 for rules that only Spark applies.
        """
        lacking = self.check_columns(expected, adds_columns)
        if self._table is not None and (rules := row_rules(self._table)):
            raise self._unwritable("; ".join(rules))
        return lacking

    def commit(self, parts: Sequence[PartFile], commit: BatchCommit, columns: pa.Schema) -> Written:
        """Commit data files with transaction version and ledger entry, unless the batch is there.

        Raises:
            UnavailableError: TIDE-SINK-002, if other writers won every attempt; TIDE-SINK-005, if the table
                was dropped meanwhile.
            DataError: As `check_appendable`, if the table was changed meanwhile.
            FencedError, GateRefusedError: As `look`.
        """
        facts = {"table": self.path, "batch_id": commit.batch_id}
        race = Race(facts, "see who writes: tidemill ledger; a repeated batch is safe")
        return race.until_won(lambda: self._commit_once(parts, commit, columns))

    def _commit_once(self, parts: Sequence[PartFile], commit: BatchCommit, columns: pa.Schema) -> Written:
        if self.look(commit) is not None:
            return Written(committed=False)
        if self._table is None:
            raise self._vanished()
        self.check_appendable(columns)
        rows, before = sum(part.rows for part in parts), self._table.version()
        try:
            self._append(self._table, parts, commit, rows)
        except CommitFailedError as error:
            # delta-rs says the same of a lost race and of a table feature that it does not know.
            if self.refresh() is not None and self._version() == before:
                raise self._unwritable(str(error)) from error
            raise LostRaceError from error
        return Written(True, rows, self._landed(commit, before))

    def _landed(self, commit: BatchCommit, before: int) -> int:
        """Take note of a commit; its version, or that of somebody who wrote right after it."""
        table = self.refresh()
        if table is None:
            raise self._vanished()
        if table.version() > before + 1:
            self._check_held()
        self._hold(commit, table.version())
        return table.version()

    def _append(self, table: DeltaTable, parts: Sequence[PartFile], commit: BatchCommit, rows: int) -> None:
        entry = commit.entry.model_copy(update={"rows": rows})
        now = int(time.time() * 1000)
        try:
            table.create_write_transaction(
                [AddAction(part.name, part.size, {}, now, True, part.statistics) for part in parts],
                mode="append",
                schema=table.schema(),
                partition_by=[],
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": entry.to_text()},
                    # With a time: a table that forgets old transactions would forget one without at once.
                    app_transactions=[Transaction(commit.app_id, commit.batch_id, now)],
                ),
                post_commithook_properties=_after(table.version() + 1),
            )
        except CommitFailedError:
            raise
        except DeltaError as error:
            raise self._unwritable(str(error)) from error

    def _version(self) -> int | None:
        return None if self._table is None else self._table.version()

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


def _after(version: int) -> PostCommitHookProperties:
    """What follows a commit: every 100th clears the log of expired files, as the table's properties say."""
    due = version % LOG_CLEANUP_EVERY == 0
    return PostCommitHookProperties(cleanup_expired_logs=None if due else False)


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
