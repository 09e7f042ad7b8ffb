"""Writing one Parquet data file of a Delta table, with the statistics that its log entry carries.

The format of the statistics is Delta's "Per-file Statistics" (Delta transaction log protocol): numRecords,
minValues, maxValues and nullCount of the first 32 columns.
"""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import obstore
import pyarrow as pa  # noqa: TID253  # only tasks and drivers load this module
import pyarrow.compute as pc  # noqa: TID253
import pyarrow.parquet as pq  # noqa: TID253

from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.objects import open_objects

# Delta indexes the first 32 columns by default (delta.dataSkippingNumIndexedCols).
INDEXED_COLUMNS = 32
# Digits of a decimal that a JSON number read as a double keeps; bounds of wider columns would be wrong.
EXACT_DIGITS = 15
# Longest text kept as a minimum or maximum, in characters, as Delta's own writer cuts it.
INDEXED_TEXT_CHARACTERS = 32


@dataclass(frozen=True)
class PartFile:
    """One data file.

    Args:
        name: Path relative to the table.
        size: Bytes.
        rows: Number of rows.
        statistics: Delta's per-file statistics as JSON text.
    """

    name: str
    size: int
    rows: int
    statistics: str


def write_part(
    folder: str,
    name: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    access: Access = NO_ACCESS,
) -> PartFile | None:
    """Write batches as one file below `folder`; None and no file, if there are no rows.

    The file appears as a whole or not at all; a file of the same name is replaced. A task gets the access
    from its driver: in its own process no environment was opened.
    """
    store = open_objects(folder, access)
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return None
    unbounded: set[str] = set()
    with obstore.open_writer(store, name) as target:
        upload = _Upload(target)
        with pq.ParquetWriter(upload, schema, compression="snappy") as writer:
            for batch in itertools.chain([first], rows):
                unbounded |= _columns_with_nan(batch)
                writer.write_batch(_as_schema(batch, schema))
    metadata = writer.writer.metadata
    return PartFile(name, upload.size, metadata.num_rows, json.dumps(statistics(metadata, schema, unbounded)))


class _Upload(io.RawIOBase):
    """An object store's writer as the file object that Parquet wants; counts the bytes."""

    def __init__(self, target: obstore.WritableFile) -> None:
        self._target = target
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._target.write(data)
        self.size += len(data)
        return len(data)


def statistics(
    metadata: pq.FileMetaData, schema: pa.Schema, unbounded: Collection[str] = ()
) -> dict[str, Any]:
    """Delta's statistics of one file, from the Parquet footer's own; no bounds for `unbounded` columns."""
    result: dict[str, Any] = {
        "numRecords": metadata.num_rows,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
    leaves = _leaves(metadata)
    for field in list(schema)[:INDEXED_COLUMNS]:
        if field.name not in leaves:
            continue
        columns = [
            metadata.row_group(group).column(leaves[field.name]) for group in range(metadata.num_row_groups)
        ]
        parts = [column.statistics for column in columns]
        if any(part is None or not part.has_null_count for part in parts):
            continue
        result["nullCount"][field.name] = sum(part.null_count for part in parts)
        bounded = [part for part in parts if part.has_min_max]
        # A row group of nulls has no bounds and needs none; any other without bounds makes all unknown.
        if (
            bounded
            and field.name not in unbounded
            and all(part.has_min_max or part.num_values == 0 for part in parts)
        ):
            _put_bounds(result, field, min(p.min for p in bounded), max(p.max for p in bounded))
    return result


def _columns_with_nan(batch: pa.RecordBatch) -> set[str]:
    """Float columns with a NaN: Spark sorts it above all numbers, Parquet's footer leaves it out."""
    floats = (field.name for field in batch.schema if pa.types.is_floating(field.type))
    return {name for name in floats if pc.any(pc.is_nan(batch.column(name))).as_py()}


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    """Index of each Parquet column that is a whole table column (nested ones have no bounds of their own)."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    paths = [group.column(index).path_in_schema for index in range(metadata.num_columns)]
    return {path: index for index, path in enumerate(paths) if "." not in path}


def _put_bounds(result: dict[str, Any], field: pa.Field, low: Any, high: Any) -> None:
    if pa.types.is_binary(field.type) or pa.types.is_boolean(field.type):
        return
    if pa.types.is_decimal(field.type) and field.type.precision > EXACT_DIGITS:
        return
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return
    if isinstance(low, str):
        if len(high) > INDEXED_TEXT_CHARACTERS:
            # Cut text sorts before the value it was cut from, so a cut maximum needs one last character
            # that sorts after everything.
            high = high[:INDEXED_TEXT_CHARACTERS] + "\U0010ffff"
        low = low[:INDEXED_TEXT_CHARACTERS]
    result["minValues"][field.name] = _as_json(low)
    result["maxValues"][field.name] = _as_json(high)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        # One without a zone is a local time (timestamp_ntz) and stays as it is.
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema.equals(schema) else batch.cast(schema)
