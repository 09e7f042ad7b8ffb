"""Read a quarantine table without a JVM. The bytes of records are read only on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemill.ledger.entry import Positions
from tidemill.ledger.read import open_table
from tidemill.names import TRANSFORM_FAILED
from tidemill.storage.row_values import row_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import ParquetFileFragment

_PLACE = ("topic", "partition", "offset", "file", "line")
_COLUMNS = ("quarantined_at", *_PLACE, "arrived_at", "reason")

# Position of a row: number of its file, and number of the row in it.
_IN_FILE, _IN_ROW = "number_of_file", "number_of_row"

# Maximum number of records whose bytes are in memory at once. A record can have a megabyte, Kafka's usual
# limit.
_VALUES_AT_ONCE = 64

# Bytes of a file that are read at once.
_READ_BYTES = 1 << 20


def count_reasons(path: str) -> list[dict[str, Any]]:
    """Return records and newest time of each reason, most frequent first; empty without a table."""
    table = open_table(path)
    if table is None:
        return []
    records: Counter[str] = Counter()
    newest: dict[str, datetime] = {}
    # One part at a time, because a quarantine may have more rows than fit in memory.
    parts = table.to_pyarrow_dataset().to_batches(
        columns=["reason", "quarantined_at"], batch_readahead=1, fragment_readahead=1
    )
    for part in parts:
        for reason, count, at in _counted(part):
            records[reason] += count
            newest[reason] = max(at, newest.get(reason, at))
    return [
        {"reason": reason, "records": records[reason], "newest": newest[reason]}
        for reason in sorted(records, key=lambda reason: (-records[reason], reason))
    ]


def _counted(part: pa.RecordBatch) -> Iterator[tuple[str, int, datetime]]:
    """Yield reason, records and newest time; the same kind of reason can occur several times."""
    import pyarrow as pa

    groups = pa.Table.from_batches([part]).group_by("reason")
    for row in groups.aggregate([("quarantined_at", "count"), ("quarantined_at", "max")]).to_pylist():
        yield _kind_of(row["reason"]), row["quarantined_at_count"], row["quarantined_at_max"]


def newest_rejected(path: str, limit: int, *, raw: bool) -> list[dict[str, Any]]:
    """Return the last rejected records. With `raw`, also their bytes as text, undecodable ones escaped."""
    table = open_table(path)
    if table is None:
        return []
    dataset = table.to_pyarrow_dataset()
    files = list(dataset.get_fragments())
    found = newest_of(_parts_of(files, dataset.schema), limit)
    rows = [{name: row[name] for name in _COLUMNS} for row in found]
    if not raw:
        return [row | {"reason": _kind_of(row["reason"])} for row in rows]
    places = [(row[_IN_FILE], row[_IN_ROW]) for row in found]
    values = _values(files, places)
    return [row | {"raw": _text(values[place])} for row, place in zip(rows, places, strict=True)]


def newest_of(parts: Iterable[pa.RecordBatch], limit: int) -> list[dict[str, Any]]:
    """Return the newest records; at most these and one part are in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    order = [(name, "descending") for name in ("quarantined_at", *_PLACE)]
    newest: list[pa.Table] = []
    for part in parts:
        rows = pa.concat_tables([*newest, pa.Table.from_batches([part])])
        # A copy, because a slice would keep its whole part in memory.
        newest = [rows.take(pc.sort_indices(rows, sort_keys=order)[:limit])]
    return row_values(newest[0]) if newest else []


def _parts_of(files: Sequence[ParquetFileFragment], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows without their bytes, with their positions."""
    import pyarrow as pa

    for number, file in enumerate(files):
        begin = 0
        parts = file.to_batches(schema, columns=list(_COLUMNS), batch_readahead=1, fragment_readahead=1)
        for part in parts:
            end = begin + part.num_rows
            in_file = part.append_column(_IN_FILE, pa.repeat(pa.scalar(number, pa.int64()), part.num_rows))
            yield in_file.append_column(_IN_ROW, pa.array(range(begin, end), pa.int64()))
            begin = end


def _values(
    files: Sequence[ParquetFileFragment], places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], bytes | None]:
    """Return the bytes of the records at these positions."""
    wanted: dict[int, list[int]] = {}
    for number, row in sorted(places):
        wanted.setdefault(number, []).append(row)
    return {
        (number, row): value
        for number, rows in wanted.items()
        for row, value in _values_in(files[number], rows)
    }


def _values_in(file: ParquetFileFragment, rows: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the bytes of rows in one file; the rows are in ascending order."""
    import pyarrow.parquet as pq

    # A dataset would decode a whole row group, which may be a whole batch.
    with pq.ParquetFile(file.open(), buffer_size=_READ_BYTES, pre_buffer=False) as opened:
        begin = place = 0
        for part in opened.iter_batches(_VALUES_AT_ONCE, columns=["value"]):
            end = begin + part.num_rows
            while place < len(rows) and rows[place] < end:
                yield rows[place], part["value"][rows[place] - begin].as_py()
                place += 1
            if place == len(rows):
                return
            begin = end


def _kind_of(reason: str) -> str:
    """Return the reason without a transform's error text, which may quote the record."""
    return reason.partition(": ")[0] if reason.startswith(f"{TRANSFORM_FAILED}:") else reason


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def offsets_between(path: str, start: Positions, end: Positions) -> dict[tuple[str, int], pa.Array]:
    """Return the table's record offsets in a range, by topic and partition; without empty ones."""
    import pyarrow.dataset as ds

    table = open_table(path)
    found: dict[tuple[str, int], pa.Array] = {}
    if table is None:
        return found
    for topic, partitions in start.items():
        for number, first in partitions.items():
            lies = ds.field("offset") >= first
            there = (ds.field("topic") == topic) & (ds.field("partition") == int(number)) & lies
            there &= ds.field("offset") < end[topic][number]
            rows = table.to_pyarrow_dataset().to_table(columns=["offset"], filter=there, use_threads=False)
            if rows.num_rows:
                found[topic, int(number)] = rows["offset"].combine_chunks()
    return found
