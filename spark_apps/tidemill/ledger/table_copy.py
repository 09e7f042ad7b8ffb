"""A table as it was at a version, copied into a new table that shares nothing with it.

Not Delta's shallow clone: delta-rs takes its absolute paths for relative ones and cannot read the history of
such a table, so neither the arrow writer's gate nor RESTORE would work on it, and a VACUUM of the original
would take its rows away. Data files are never changed, so a store copies them within itself, and a local disk
gives the same data a second name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import commits_of
from tidemill.names import COLUMN_MAPPING
from tidemill.storage.access import access_to
from tidemill.storage.advance import Told, Work, nobody_told
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Files copied at the same time; the store does the work, so this only hides its answering times.
PARALLEL_COPIES = 8


@dataclass(frozen=True)
class TableCopy:
    """One table to copy.

    Args:
        origin: Path of the table to copy.
        version: Of it.
        target: Path of the new table.
        base: First ledger entry of the new table; its query id is this request's own.
        with_rows: False for columns and partitions alone.
    """

    origin: str
    version: int
    target: str
    base: LedgerEntry
    with_rows: bool = True


def copy_table(store: Store, wanted: TableCopy, told: Told = nobody_told) -> str:
    """Copy data files, then commit them; a repeated call completes what an earlier one began. Returns the id.

    Columns, rows and partitions are those of the origin; clustering, constraints and properties are not.

    Raises:
        GateRefusedError: TIDE-CKPT-078, if delta-rs cannot tell the rows of the origin by its files.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import AddAction

    origin = _open(wanted.origin, wanted.version)
    actions = _actions(origin) if wanted.with_rows else []
    names = [unquote(str(action["path"])) for action in actions]
    sizes = dict(zip(names, (int(action["size_bytes"]) for action in actions), strict=True))
    _copy_files(store, wanted, sizes, told)
    target = DeltaTable.create(
        wanted.target,
        schema=origin.schema(),
        partition_by=origin.metadata().partition_columns,
        mode="ignore",
        storage_options=access_to(wanted.target).delta_options(),
    )
    table_id = str(target.metadata().id)
    if any(commit.is_by_verb for commit in commits_of(wanted.target, target)):
        return table_id
    counts = [action["num_records"] for action in actions]
    base = wanted.base.model_copy(update={"rows": None if None in counts else sum(map(int, counts))})
    begun = base.transaction
    target.create_write_transaction(
        [
            AddAction(
                name, a["size_bytes"], _partition(a), a["modification_time"], True, json.dumps(_statistics(a))
            )
            for name, a in zip(names, actions, strict=True)
        ],
        mode="append",
        schema=target.schema(),
        partition_by=origin.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": base.to_text()},
            app_transactions=[] if begun is None else [Transaction(*begun)],
        ),
    )
    return table_id


def size_of(path: str, version: int) -> tuple[int, int]:
    """Number and bytes of the data files of a version."""
    actions = _actions(_open(path, version))
    return len(actions), sum(int(action["size_bytes"]) for action in actions)


def _open(path: str, version: int) -> DeltaTable:
    from deltalake import DeltaTable

    table = DeltaTable(path, version=version, storage_options=access_to(path).delta_options())
    features = set(table.protocol().reader_features or ())
    # Older protocols name no features.
    if table.metadata().configuration.get(COLUMN_MAPPING, "none") != "none":
        features.add("columnMapping")
    if features:
        raise GateRefusedError(
            "TIDE-CKPT-078",
            "This table has features that keep a part of its rows outside of its data files, or name its "
            "columns otherwise. A copy of the files would not be a copy of the table.",
            facts={"table": path, "features": ", ".join(sorted(features))},
            fix="rewrite the table without them (REORG … APPLY (PURGE)), or rehearse on a table of its own",
            runbook="fork",
        )
    return table


def _copy_files(store: Store, wanted: TableCopy, sizes: Mapping[str, int], told: Told) -> None:
    there = {file.path: file.size for file in store.list_files(wanted.target)}

    def copy(name: str) -> str:
        target = f"{wanted.target}/{name}"
        if target not in there:
            store.copy_within(f"{wanted.origin}/{name}", target)
        return name

    work = Work(f"table {wanted.base.output}", len(sizes), told)
    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        # Asking for the results raises what a copy raised.
        list(work.counted(threads.map(copy, sizes), sizes.__getitem__))


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    """Data files of a version, as the log tells them."""
    columns = table.get_add_actions()
    names = [str(name) for name in columns.column_names]
    rows = zip(*(columns.column(name).to_pylist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _partition(action: Mapping[str, Any]) -> dict[str, str | None]:
    values = action.get("partition") or {}
    return {column: None if value is None else str(value) for column, value in values.items()}


def _statistics(action: Mapping[str, Any]) -> dict[str, int]:
    """The number of rows; Delta takes missing bounds for unknown ones."""
    rows = action.get("num_records")
    return {} if rows is None else {"numRecords": int(rows)}
