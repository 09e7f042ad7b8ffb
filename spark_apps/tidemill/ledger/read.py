"""Read the ledger and the transaction versions of a table without a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from tidemill.errors import DataError
from tidemill.ledger.entry import LedgerEntry, parse_entry
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Maximum length of the library's message in an error, in characters.
SHOWN_CHARACTERS = 200

# Commits read at once. The first page has the newest batch of a live table; each further page is larger.
FIRST_PAGE = 50
PAGE_GROWTH = 16

# Commits read concurrently, to hide an object store's latency. Only one page is requested in advance, because
# a cleared log ends long before version 0.
_READ_AT_ONCE = 8
_PAGE = 64

_COMMIT = re.compile(r"[0-9]{20}\.json")

# Operations that change how rows are stored but no row. Undoing them loses only the work.
_MAINTENANCE = frozenset({"OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "COMPUTE STATS", "RESTORE"})

# The table begins again under its old name, with another id.
_REPLACING = ("CREATE OR REPLACE TABLE", "REPLACE TABLE")

# Note in an operation's commit without a ledger entry: the request that made it.
RESTORED_BY = "restored_by"


@dataclass(frozen=True)
class Commit:
    """One commit of a table.

    Args:
        version: Table version.
        committed_at: Time of the commit.
        operation: Delta's name of the operation, such as `WRITE`.
        rows: Number of rows written, if the commit records it.
        entry: The ledger entry; None if Tidemill did not make the commit.
        restored_to: Version that a RESTORE brought back; None for other operations and if it is not recorded.
        note: Other text in place of a ledger entry.
    """

    version: int
    committed_at: datetime
    operation: str
    rows: int | None
    entry: LedgerEntry | None
    restored_to: int | None = None
    note: str | None = None

    @property
    def is_by_verb(self) -> bool:
        """Return True if an operation made the commit: neither a batch nor another writer."""
        if self.entry is not None:
            return self.entry.mode == "base"
        return self.note is not None and RESTORED_BY in self.note

    @property
    def changes_no_row(self) -> bool:
        """Return True for maintenance and for commits of operations, except the first commit of a fork."""
        return self.operation in _MAINTENANCE or (self.is_by_verb and (self.entry is None or self.rows == 0))

    @property
    def replaces(self) -> bool:
        """Return True if the commit replaces the whole table."""
        return self.operation.startswith(_REPLACING)


class History:
    """The commits of an open table, newest first, read only as far back as a caller iterates."""

    def __init__(self, path: str, table: DeltaTable | None) -> None:
        self._path = path
        self._table = table
        self._read: list[Commit] = []
        self._limit: int | None = 0

    def __iter__(self) -> Iterator[Commit]:
        place = 0
        while place < len(self._read) or self._more():
            yield self._read[place]
            place += 1

    def _more(self) -> bool:
        """Read a further page; return False at the beginning of the log."""
        if self._table is None or self._limit is None:
            return False
        self._limit = FIRST_PAGE if self._limit == 0 else self._limit * PAGE_GROWTH
        found = commits_of(self._path, self._table, self._limit)
        if len(found) < self._limit:
            self._limit = None
        fresh = found[len(self._read) :]
        self._read += fresh
        return bool(fresh) or self._more()


def open_table(path: str) -> DeltaTable | None:
    """Open a table; return None if it does not exist."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path, storage_options=access_to(path).delta_options())
    except TableNotFoundError:
        return None


def read_commits(path: str, limit: int | None = None) -> list[Commit]:
    """Return the commits of a table, newest first; empty if the table does not exist.

    Raises:
        DataError: TIDE-LEDG-001, if files of its log are missing or damaged.
    """
    table = _open_or_refuse(path)
    return [] if table is None else commits_of(path, table, limit)


def commits_since(path: str, moment: datetime) -> Iterator[Commit]:
    """Yield the commits of a table since a time, newest first, by the clocks of their writers.

    Raises:
        DataError: TIDE-LEDG-001, as `read_commits`.
    """
    history = History(path, _open_or_refuse(path))
    return takewhile(lambda commit: commit.committed_at >= moment, history)


def _open_or_refuse(path: str) -> DeltaTable | None:
    from deltalake.exceptions import DeltaError

    try:
        return open_table(path)
    except DeltaError as error:
        raise unreadable_log(path, error) from error


def unreadable_log(path: str, error: object) -> DataError:
    """Return the error for a table whose log the library cannot read."""
    return DataError(
        "TIDE-LEDG-001",
        "The table's log cannot be read: commits are missing or damaged. Nothing was changed.",
        # The other lines are the library's trace.
        facts={"table": path, "reason": str(error).partition("\n")[0][:SHOWN_CHARACTERS]},
        fix="bring the log's files back, or move the damaged newest ones aside",
        runbook="table-log-damaged",
    )


def commits_of(path: str, table: DeltaTable, limit: int | None = None) -> list[Commit]:
    """Return the commits of an open table, newest first, as far back as the log has them.

    Each commit is read by its number. The library's own listing (deltalake 1.6.6) counts from the opened
    version even if others have committed since, and is empty if the path has a `#` or `?`.

    Raises:
        DataError: TIDE-LEDG-001, if files of the log are missing or damaged.
    """
    newest, store = table.version(), Store(path)
    oldest = 0 if limit is None else max(0, newest - limit + 1)
    commits: list[Commit] = []
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        for page in range(newest, oldest - 1, -_PAGE):
            versions = range(page, max(page - _PAGE, oldest - 1), -1)
            for version, content in zip(
                versions, threads.map(partial(_content, store), versions), strict=True
            ):
                if content is None:
                    _check_is_cleared(store, version, newest)
                    return commits
                commits += _commit(path, version, content)
    return commits


def _content(store: Store, version: int) -> bytes | None:
    return store.read(f"{store.root}/_delta_log/{version:020}.json")


def _check_is_cleared(store: Store, missing: int, newest: int) -> None:
    """Raise unless a missing commit was cleared: the newest never is, and older ones are cleared first."""
    older = (name[:20] for name in store.list_names(f"{store.root}/_delta_log") if _COMMIT.fullmatch(name))
    if missing == newest or any(int(version) < missing for version in older):
        raise unreadable_log(store.root, f"version {missing} is missing")


def _commit(path: str, version: int, content: bytes) -> list[Commit]:
    """Return the commit of a log file; empty without a `commitInfo`, which the protocol allows."""
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        infos = (action["commitInfo"] for action in actions if "commitInfo" in action)
        return [parse_commit_info(version, info) for info in infos][:1]
    except (ValueError, TypeError, KeyError) as error:
        raise unreadable_log(path, f"version {version} is damaged") from error


def read_ledger(path: str, limit: int | None = None) -> list[Commit]:
    """Return Tidemill's commits, newest first. `limit` counts all examined commits."""
    return [commit for commit in read_commits(path, limit) if commit.entry is not None]


def row_count(table: DeltaTable) -> int | None:
    """Return the number of rows of an open table, from the statistics of its files.

    None if a file has no statistics, or if the library cannot read the table. Statistics include the rows
    that deletion vectors remove, so a table that may have these is read.
    """
    if "deletionVectors" in (table.protocol().reader_features or ()):
        return _rows_read(table)
    files = table.get_add_actions(flatten=True)
    if not files.num_rows:
        return 0
    if "num_records" not in files.schema.names:
        return None
    counts: Any = files.column("num_records").to_pylist()
    return None if None in counts else sum(count or 0 for count in counts)


def _rows_read(table: DeltaTable) -> int | None:
    import pyarrow as pa
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        reader: Any = QueryBuilder().register("counted", table).execute("SELECT count(*) AS n FROM counted")
        return int(pa.RecordBatchReader.from_stream(reader).read_all()["n"][0].as_py())
    except (DeltaError, OSError, ValueError):
        return None


def transaction_version(path: str, app_id: str) -> int | None:
    """Return the last batch that `app_id` committed to a table; None if there is none."""
    table = open_table(path)
    return None if table is None else table.transaction_version(app_id)


def rows_written(metrics: Mapping[str, Any]) -> int | None:
    """Return the rows that an operation added or changed, from Delta's metrics; None if unknown."""
    # A MERGE's numOutputRows also counts the rows that it only copied to other files.
    changed = [metrics[name] for name in ("numTargetRowsInserted", "numTargetRowsUpdated") if name in metrics]
    if changed:
        return sum(map(int, changed))
    rows = metrics.get("numOutputRows")
    # A replaced range also counts copied rows.
    return None if rows is None else int(rows) - int(metrics.get("numCopiedRows", 0))


def parse_commit_info(version: int, action: Mapping[str, Any]) -> Commit:
    """Return a commit from its action `commitInfo`."""
    entry = parse_entry(action.get("userMetadata"))
    counted = entry.rows if entry is not None else None
    rows = counted if counted is not None else rows_written(action.get("operationMetrics") or {})
    operation = str(action.get("operation", ""))
    target = (action.get("operationParameters") or {}).get("version") if operation == "RESTORE" else None
    return Commit(
        version=version,
        committed_at=datetime.fromtimestamp(action["timestamp"] / 1000, tz=UTC),
        operation=operation,
        rows=rows,
        entry=entry,
        restored_to=None if target is None else int(target),
        note=None if entry is not None else action.get("userMetadata"),
    )
