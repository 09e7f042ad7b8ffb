"""Write one Parquet data file of a Delta table, with the statistics for its log entry.

The format of the statistics is Delta's "Per-file Statistics" (Delta transaction log protocol): numRecords,
minValues, maxValues and nullCount of the first 32 columns.
"""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import obstore
import pyarrow as pa  # noqa: TID253  # only tasks and drivers load this module
import pyarrow.compute as pc  # noqa: TID253
import pyarrow.parquet as pq  # noqa: TID253

from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.objects import open_objects

# Delta indexes the first 32 columns by default (delta.dataSkippingNumIndexedCols).
INDEXED_COLUMNS = 32
# Maximum length of a text that is kept as a minimum or maximum, in characters; Delta's own writer truncates
# it the same way.
INDEXED_TEXT_CHARACTERS = 32
_LAST_CHARACTER = "\U0010ffff"

# Days of 0001-01-01 and 9999-12-31. Not every reader can parse years beyond them in Delta's format.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # local times have no zone
_FIRST_DAY = date.min.toordinal() - _EPOCH.toordinal()
_LAST_DAY = date.max.toordinal() - _EPOCH.toordinal()
# A day in microseconds.
_DAY = 86_400_000_000
_TICK = {"s": 1000, "ms": 1000, "us": 1}


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
    """Write batches as one file below `folder`; return None without a file if there are no rows.

    The file appears as a whole or not at all, and replaces a file of the same name. A task receives the
    credentials from its driver, because no environment was opened in the task's process.
    """
    store = open_objects(folder, access)
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return None
    values = _Values(schema)
    with obstore.open_writer(store, name) as target:
        upload = _Upload(target)
        with pq.ParquetWriter(upload, schema, compression="snappy") as writer:
            for batch in itertools.chain([first], rows):
                values.see(written := _as_schema(batch, schema))
                writer.write_batch(written)
    metadata = writer.writer.metadata
    found = statistics(metadata, schema, values.nan, values.texts)
    return PartFile(name, upload.size, metadata.num_rows, _as_json(found))


class _Upload(io.RawIOBase):
    """An object store's writer as a file object for Parquet; counts the bytes."""

    def __init__(self, target: obstore.WritableFile) -> None:
        self._target = target
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._target.write(data)
        self.size += len(data)
        return len(data)


class _Values:
    """Facts about the values of a file that are not in Parquet's footer.

    Args:
        schema: Columns of the file.
    """

    def __init__(self, schema: pa.Schema) -> None:
        indexed = list(schema)[:INDEXED_COLUMNS]
        self._floats = [field.name for field in indexed if _is_float(field.type)]
        self._texts = [field.name for field in indexed if _is_text(field.type)]
        # Float columns with a NaN. Spark sorts NaN above all numbers, and the footer leaves it out.
        self.nan: set[str] = set()
        # Minimum and maximum of text columns. The footer has none longer than 4 KiB.
        self.texts: dict[str, tuple[bytes, bytes]] = {}

    def see(self, batch: pa.RecordBatch) -> None:
        """Record the facts of the next rows of the file."""
        self.nan |= {name for name in self._floats if pc.any(pc.is_nan(batch.column(name))).as_py()}
        for name in self._texts:
            low, high = pc.min_max(batch.column(name)).values()
            if low.is_valid:
                found = (bound.as_buffer().to_pybytes() for bound in (low, high))
                known = [*found, *self.texts.get(name, ())]
                self.texts[name] = min(known), max(known)


def statistics(
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    nan: Collection[str] = (),
    texts: Mapping[str, tuple[bytes, bytes]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return Delta's statistics of one file, from the Parquet footer.

    A bound that Delta's JSON format cannot represent is left out, so that statistics never fail a write and
    never exclude an existing row. If one minimum is left out, all minimums are, and likewise for maximums.
    The reason is that deltalake 1.6 reads a missing bound next to others as null, so a filter on its column
    finds no row.

    Args:
        metadata: The footer.
        schema: Columns of the file.
        nan: Float columns with a NaN, which have no maximum.
        texts: Minimum and maximum of text columns.
    """
    counts: dict[str, int] = {}
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    leaves = _leaves(metadata)
    for field in list(schema)[:INDEXED_COLUMNS]:
        parts = _parts(metadata, leaves.get(field.name))
        if parts is None:
            continue
        counts[field.name] = sum(part.null_count for part in parts)
        if _has_bounds(field.type) and any(part.num_values for part in parts):
            low, high = texts[field.name] if field.name in texts else _stored(field.type, parts)
            lows[field.name] = _bound(field.type, low, _text_minimum)
            highs[field.name] = None if field.name in nan else _bound(field.type, high, _text_maximum)
    bounds = {"minValues": lows, "maxValues": highs}
    exact = {name: values for name, values in bounds.items() if None not in values.values()}
    return {"numRecords": metadata.num_rows, **exact, "nullCount": counts}


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    """Return the index of each Parquet column that is a whole table column; nested ones have no bounds."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    paths = [group.column(index).path_in_schema for index in range(metadata.num_columns)]
    return {path: index for index, path in enumerate(paths) if "." not in path}


def _parts(metadata: pq.FileMetaData, leaf: int | None) -> list[pq.Statistics] | None:
    """Return a column's statistics per row group; None if a group has none, or the column is nested."""
    if leaf is None:
        return None
    columns = (metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups))
    parts = [column.statistics for column in columns]
    return None if any(part is None or not part.has_null_count for part in parts) else parts


def _has_bounds(kind: pa.DataType) -> bool:
    """Return True if Delta's statistics have bounds for columns of this type."""
    other = (
        *(pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_decimal),
        *(pa.types.is_date32, pa.types.is_timestamp),
    )
    return _is_float(kind) or _is_text(kind) or any(is_kind(kind) for is_kind in other)


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _stored(kind: pa.DataType, parts: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    """Return minimum and maximum as Parquet stores them, because Python's types cannot hold all of them."""
    # A row group of nulls has no bounds and needs none. Any other group without bounds makes all bounds
    # unknown.
    if not all(part.has_min_max or part.num_values == 0 for part in parts):
        return None, None
    bounded = [part for part in parts if part.has_min_max]
    if pa.types.is_decimal(kind):
        return min(part.min for part in bounded), max(part.max for part in bounded)
    return min(part.min_raw for part in bounded), max(part.max_raw for part in bounded)


def _bound(kind: pa.DataType, stored: Any, cut: Callable[[bytes], str | None]) -> Any:
    """Return one bound as a JSON value; None if JSON or Delta's format cannot represent it."""
    if stored is None or (isinstance(stored, float) and not math.isfinite(stored)):
        return None
    if _is_text(kind):
        return cut(stored)
    if pa.types.is_date32(kind):
        return _day(stored)
    return _moment(stored, kind) if pa.types.is_timestamp(kind) else stored


def _text_minimum(content: bytes) -> str | None:
    text = _text(content)
    return None if text is None else text[:INDEXED_TEXT_CHARACTERS]


def _text_maximum(content: bytes) -> str | None:
    """Return the text, or a shorter one that sorts after it."""
    text = _text(content)
    if text is None or len(text) <= INDEXED_TEXT_CHARACTERS:
        return text
    # Truncated text sorts before its original, so a truncated maximum needs a last character that sorts after
    # the original one.
    if text[INDEXED_TEXT_CHARACTERS] == _LAST_CHARACTER:
        return None
    return text[:INDEXED_TEXT_CHARACTERS] + _LAST_CHARACTER


def _text(content: bytes) -> str | None:
    """Return the text; None if it is not UTF-8, as Spark strings that were cast from binary may be."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _day(days: int) -> str | None:
    moment = _EPOCH + timedelta(days=days) if _FIRST_DAY <= days <= _LAST_DAY else None
    return None if moment is None else moment.date().isoformat()


def _moment(ticks: int, kind: pa.TimestampType) -> str | None:
    # Parquet has no seconds, so Arrow writes them as milliseconds.
    microseconds, rest = divmod(ticks, 1000) if kind.unit == "ns" else (ticks * _TICK[kind.unit], 0)
    if rest or not _FIRST_DAY <= microseconds // _DAY <= _LAST_DAY:
        return None
    text = (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")
    # A timestamp without a zone is a local time (timestamp_ntz) and stays unchanged.
    return text if kind.tz is None else f"{text}Z"


def _as_json(value: Any) -> str:
    """Return the JSON text, with all digits of a decimal, which a float would round.

    Characters are not escaped, because deltalake 1.6 decodes escaped characters beyond U+1FFFF incorrectly.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_as_json(name)}: {_as_json(part)}" for name, part in value.items()) + "}"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema.equals(schema) else batch.cast(schema)
