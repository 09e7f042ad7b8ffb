"""Copy a table at a version into a new table that shares nothing with it.

This is not Delta's shallow clone. delta-rs treats the absolute paths of a clone as relative ones and cannot
read its history, so neither the arrow writer's gate nor RESTORE would work on it. A VACUUM of the original
would also delete the clone's rows. Data files never change, so a store copies them internally, and a local
disk gives the same data a second name.
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

# Reader features under which the data files alone determine the rows.
_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint"})

# Fixes of TIDE-CKPT-078, for deletion vectors and for other features.
_PURGE = (
    "run ALTER TABLE delta.`{0}` SET TBLPROPERTIES (delta.enableDeletionVectors = false) and REORG TABLE "
    "delta.`{0}` APPLY (PURGE) in Spark, let the stream write a batch, then fork that batch"
)
_SEPARATE = "declare a separate pipeline in place of the fork, with other tables, and backfill them"

# Files copied concurrently, to hide the store's latency; the store does the work.
PARALLEL_COPIES = 8


@dataclass(frozen=True)
class TableCopy:
    """One table to copy.

    Args:
        origin: Path of the table to copy.
        version: Version to copy.
        target: Path of the new table.
        base: First ledger entry of the new table; its query id is unique to this request.
        with_rows: False to copy only columns and partitions.
    """

    origin: str
    version: int
    target: str
    base: LedgerEntry
    with_rows: bool = True


def copy_table(store: Store, wanted: TableCopy, told: Told = nobody_told) -> str:
    """Copy data files, then commit them; return the table's id.

    A repeated call completes an interrupted one. Columns, rows and partitions are copied; clustering,
    constraints and properties are not.

    Raises:
        GateRefusedError: TIDE-CKPT-078, if the data files alone do not determine the rows of the origin.
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
    """Return number and total size of the data files of a version."""
    actions = _actions(_open(path, version))
    return len(actions), sum(int(action["size_bytes"]) for action in actions)


def _open(path: str, version: int) -> DeltaTable:
    from deltalake import DeltaTable

    table = DeltaTable(path, version=version, storage_options=access_to(path).delta_options())
    features = set(table.protocol().reader_features or ()) - _HARMLESS
    # Older protocols name no features.
    if table.metadata().configuration.get(COLUMN_MAPPING, "none") != "none":
        features.add("columnMapping")
    if features == {"deletionVectors"} and not _has_deletion_vectors(table):
        return table
    if features:
        raise GateRefusedError(
            "TIDE-CKPT-078",
            "This version of the table stores deleted rows outside of the data files, or columns under other "
            "names. A copy of the files would not be a copy of the table.",
            facts={"table": path, "features": ", ".join(sorted(features))},
            fix=_PURGE.format(path.replace("`", "``")) if features == {"deletionVectors"} else _SEPARATE,
            runbook="fork",
        )
    return table


def _has_deletion_vectors(table: DeltaTable) -> bool:
    import pyarrow as pa

    # One batch at a time, because a vector has a value for each row of its file.
    vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors())
    return any(batch.num_rows for batch in vectors)


def _copy_files(store: Store, wanted: TableCopy, sizes: Mapping[str, int], told: Told) -> None:
    there = {file.path: file.size for file in store.list_files(wanted.target)}

    def copy(name: str) -> str:
        target = f"{wanted.target}/{name}"
        if target not in there:
            store.copy_within(f"{wanted.origin}/{name}", target)
        return name

    work = Work(f"table {wanted.base.output}", len(sizes), told)
    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        # Reading the results raises the errors of the copies.
        list(work.counted(threads.map(copy, sizes), sizes.__getitem__))


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the data files of a version, from the log."""
    columns = table.get_add_actions()
    names = [str(name) for name in columns.column_names]
    rows = zip(*(columns.column(name).to_pylist() for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _partition(action: Mapping[str, Any]) -> dict[str, str | None]:
    values = action.get("partition") or {}
    return {column: None if value is None else str(value) for column, value in values.items()}


def _statistics(action: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of rows; Delta treats missing bounds as unknown."""
    rows = action.get("num_records")
    return {} if rows is None else {"numRecords": int(rows)}
