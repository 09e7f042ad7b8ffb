"""Check the data files between two versions of a table: their existence and their event times."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidemill.storage.access import access_to
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable


def why_not_restorable(path: str, version: int) -> str:
    """Return why a table's older version cannot be restored; empty if it can."""
    from deltalake.exceptions import DeltaError

    try:
        older, now = _files(_table(path, version)), _files(_table(path))
    except DeltaError as error:
        return str(error)
    store = Store(path)
    # Files of the newest version exist; an absolute path belongs to another table, the origin of a clone.
    wanted = [name for name in older if name not in now and ":" not in name]
    gone = [name for name in wanted if store.identity(f"{path}/{unquote(name)}") is None]
    return f"{len(gone)} data files were deleted, {gone[0]} for one" if gone else ""


def undone_event_times(path: str, version: int, column: str) -> tuple[datetime, datetime] | None:
    """Return the first and last event time in the files added since a version; None if unknown."""
    now, older = _files(_table(path)), _files(_table(path, version))
    gained = [statistics for name, statistics in now.items() if name not in older]
    lows = [s[f"min.{column}"] for s in gained if s.get(f"min.{column}") is not None]
    highs = [s[f"max.{column}"] for s in gained if s.get(f"max.{column}") is not None]
    return (min(lows), max(highs)) if lows and highs else None


def _table(path: str, version: int | None = None) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(path, version=version, storage_options=access_to(path).delta_options())


def _files(table: DeltaTable) -> dict[str, dict[str, Any]]:
    """Return the statistics of each file, by its name in the log."""
    columns = table.get_add_actions(flatten=True)
    names = [str(name) for name in columns.column_names]
    rows = zip(*(columns.column(name).to_pylist() for name in names), strict=True)
    actions = [dict(zip(names, row, strict=True)) for row in rows]
    return {str(action["path"]): action for action in actions}
