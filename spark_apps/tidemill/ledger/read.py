"""Reading the ledger and the transaction versions of a table without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidemill.errors import DataError
from tidemill.ledger.entry import LedgerEntry, parse_entry
from tidemill.storage.access import access_to

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Characters of the library's words that an error shows.
SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Commit:
    """One commit of a table.

    Args:
        version: Table version.
        committed_at: When.
        operation: Delta's name of the operation, e.g. `WRITE`.
        rows: Rows written, if the commit tells.
        entry: The ledger entry; None if something else than Tidemill committed.
        restored_to: Version that a RESTORE brought back; None for other operations and if it does not tell.
        note: What else stands in place of a ledger entry.
    """

    version: int
    committed_at: datetime
    operation: str
    rows: int | None
    entry: LedgerEntry | None
    restored_to: int | None = None
    note: str | None = None


def open_table(path: str) -> DeltaTable | None:
    """Open a table; None if there is none."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path, storage_options=access_to(path).delta_options())
    except TableNotFoundError:
        return None


def read_commits(path: str, limit: int | None = None) -> list[Commit]:
    """The commits of a table, newest first; empty if there is no table.

    Raises:
        DataError: TIDE-LEDG-001, if files of its log are missing or damaged.
    """
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
        return [] if table is None else commits_of(table, limit)
    except DeltaError as error:
        raise DataError(
            "TIDE-LEDG-001",
            "The table's log cannot be read: commits are missing or damaged. Nothing was changed.",
            # The rest is a trace of the library's.
            facts={"table": path, "reason": str(error).partition("\n")[0][:SHOWN_CHARACTERS]},
            fix="bring the log's files back, or move the damaged newest ones aside",
            runbook="table-log-damaged",
        ) from error


def commits_of(table: DeltaTable, limit: int | None = None) -> list[Commit]:
    """The commits of a table that is open, newest first."""
    return [_commit(action) for action in table.history(limit)]


def read_ledger(path: str, limit: int | None = None) -> list[Commit]:
    """The commits that Tidemill made, newest first. `limit` counts all commits looked at."""
    return [commit for commit in read_commits(path, limit) if commit.entry is not None]


def transaction_version(path: str, app_id: str) -> int | None:
    """Last batch that `app_id` committed to a table; None if it never did."""
    table = open_table(path)
    return None if table is None else table.transaction_version(app_id)


def rows_written(metrics: Mapping[str, Any]) -> int | None:
    """Rows that an operation added or changed, by Delta's metrics; None if they do not tell."""
    # A MERGE's numOutputRows also counts the rows that it only copied to other files.
    changed = [metrics[name] for name in ("numTargetRowsInserted", "numTargetRowsUpdated") if name in metrics]
    if changed:
        return sum(map(int, changed))
    rows = metrics.get("numOutputRows")
    return None if rows is None else int(rows)


def _commit(action: dict[str, Any]) -> Commit:
    entry = parse_entry(action.get("userMetadata"))
    counted = entry.rows if entry is not None else None
    rows = counted if counted is not None else rows_written(action.get("operationMetrics") or {})
    operation = str(action.get("operation", ""))
    target = (action.get("operationParameters") or {}).get("version") if operation == "RESTORE" else None
    return Commit(
        version=int(action["version"]),
        committed_at=datetime.fromtimestamp(action["timestamp"] / 1000, tz=UTC),
        operation=operation,
        rows=rows,
        entry=entry,
        restored_to=None if target is None else int(target),
        note=None if entry is not None else action.get("userMetadata"),
    )
