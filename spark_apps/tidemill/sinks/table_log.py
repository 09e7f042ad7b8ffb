"""One table's log as a writer needs it: transaction versions, columns, and commits of data files.

Reads and commits go through delta-rs, whose commit has one winner on every store. It stores
transaction versions but does not skip a repeated one, and refuses a commit whose app id another writer
used since its snapshot; so every commit is: refresh, compare, check, commit, and on a conflict once more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from tidemill.errors import DataError, UnavailableError
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.row_rules import row_rules
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile
from tidemill.storage.store import Store

# Commits lost to other writers before the batch fails and is tried again as a whole. Each loss means that
# somebody else made progress, so a handful is only seen when something writes without end.
COMMIT_ATTEMPTS = 10


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

    def refresh(self) -> DeltaTable | None:
        """Bring the view of the log up to date; None while there is no table.

        A table that was dropped, or dropped and made again under the same path, is opened anew: its
        versions begin again, and following them from the old ones would mix two tables.
        """
        if self._table is not None and self._identity() == self._newest_file:
            self._table.update_incremental()
        else:
            self._open()
        self._newest_file = self._identity()
        return self._table

    def _open(self) -> None:
        self._table = self._files = None
        try:
            self._table = DeltaTable(self.path, storage_options=self._options())
        except TableNotFoundError:
            return
        self._files = Store(self.path)

    def _options(self) -> dict[str, str]:
        return access_to(self.path).delta_options()

    def _identity(self) -> str | None:
        if self._table is None or self._files is None:
            return None
        return self._files.identity(f"{self.path}/_delta_log/{self._table.version():020}.json")

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

    def last_batch(self, app_id: str) -> int | None:
        """Last batch that `app_id` committed; None before its first. Call `refresh` before."""
        return None if self._table is None else self._table.transaction_version(app_id)

    def check_columns(self, expected: pa.Schema) -> None:
        """Refuse a table whose columns are not those that the pipeline writes.

        Raises:
            DataError: TIDE-SINK-001, naming each column that differs. Nothing was written.
        """
        if self._table is None:
            return
        wanted = _columns(Schema.from_arrow(expected))
        found = _columns(self._table.schema())
        if wanted == found:
            return
        raise DataError(
            "TIDE-SINK-001",
            "The table's columns are not those that the pipeline writes. Nothing was written.",
            facts={
                "table": self.path,
                "table_version": self._table.version(),
                "missing_in_table": sorted(wanted.keys() - found.keys()),
                "unknown_in_table": sorted(found.keys() - wanted.keys()),
                "other_type": {
                    name: f"{found[name]} instead of {wanted[name]}"
                    for name in sorted(wanted.keys() & found.keys())
                    if wanted[name] != found[name]
                },
            },
            fix="if the table was changed by hand, change it back; if the pipeline changed, write to a new "
            "table and backfill it",
            runbook="table-schema-changed",
        )

    def check_appendable(self, expected: pa.Schema) -> None:
        """Refuse a table to which files of rows of `expected` cannot simply be added.

        Raises:
            DataError: TIDE-SINK-001 for other columns, TIDE-SINK-003 for rules that only Spark applies.
        """
        self.check_columns(expected)
        if self._table is not None and (rules := row_rules(self._table)):
            raise self._unwritable("; ".join(rules))

    def commit(self, parts: Sequence[PartFile], commit: BatchCommit, columns: pa.Schema) -> Written:
        """Commit data files with transaction version and ledger entry, unless the batch is there.

        Raises:
            UnavailableError: TIDE-SINK-002, if other writers won every attempt; TIDE-SINK-005, if the table
                was dropped meanwhile.
            DataError: As `check_appendable`, if the table was changed meanwhile.
        """
        rows = sum(part.rows for part in parts)
        for _ in range(COMMIT_ATTEMPTS):
            table = self.refresh()
            if table is None:
                raise self._vanished()
            last = self.last_batch(commit.app_id)
            if last is not None and last >= commit.batch_id:
                return Written(committed=False)
            self.check_appendable(columns)
            before = table.version()
            try:
                self._append(table, parts, commit, rows)
            except CommitFailedError as error:
                # delta-rs says the same of a lost race and of a table feature that it does not know.
                if self._version() == before:
                    raise self._unwritable(str(error)) from error
                continue
            return Written(True, rows, self._version())
        raise UnavailableError(
            "TIDE-SINK-002",
            "Other writers won every attempt to commit.",
            facts={"table": self.path, "batch_id": commit.batch_id, "attempts": COMMIT_ATTEMPTS},
            fix="see who writes: tidemill ledger; a repeated batch is safe",
        )

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
                    app_transactions=[Transaction(commit.app_id, commit.batch_id)],
                ),
            )
        except CommitFailedError:
            raise
        except DeltaError as error:
            raise self._unwritable(str(error)) from error

    def _version(self) -> int | None:
        table = self.refresh()
        return None if table is None else table.version()

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


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}
