"""Reading a quarantine table without a JVM. Record bytes are read only if asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemill.ledger.entry import Positions
from tidemill.ledger.read import open_table
from tidemill.names import TRANSFORM_FAILED

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = ("topic", "partition", "offset", "file", "line")
_COLUMNS = ("quarantined_at", *_PLACE, "arrived_at", "reason")


def count_reasons(path: str) -> list[dict[str, Any]]:
    """Records and newest time of each reason, most frequent first; empty without a table."""
    table = open_table(path)
    if table is None:
        return []
    records: Counter[str] = Counter()
    newest: dict[str, datetime] = {}
    # One part of it at a time: a quarantine may have more rows than there is memory.
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
    """Reason, records and newest time; a kind of reason may come several times."""
    import pyarrow as pa

    groups = pa.Table.from_batches([part]).group_by("reason")
    for row in groups.aggregate([("quarantined_at", "count"), ("quarantined_at", "max")]).to_pylist():
        yield _kind_of(row["reason"]), row["quarantined_at_count"], row["quarantined_at_max"]


def newest_rejected(path: str, limit: int, *, raw: bool) -> list[dict[str, Any]]:
    """The records rejected last. With `raw`, also their bytes as text, undecodable ones escaped."""
    import pyarrow.dataset as ds

    rows = _newest(_read(path, list(_COLUMNS)), limit)
    if not raw or not rows:
        return [row | {"reason": _kind_of(row["reason"])} for row in rows]
    # Two passes, so that a large quarantine is not loaded as a whole.
    since = ds.field("quarantined_at") >= rows[-1]["quarantined_at"]
    found = _newest(_read(path, [*_COLUMNS, "value"], since), limit)
    return [{name: row[name] for name in _COLUMNS} | {"raw": _text(row["value"])} for row in found]


def _kind_of(reason: str) -> str:
    """Without what the error of a transform says: it may quote the record, and is another text for each."""
    return reason.partition(": ")[0] if reason.startswith(f"{TRANSFORM_FAILED}:") else reason


def _newest(rows: pa.Table | None, limit: int) -> list[dict[str, Any]]:
    if rows is None:
        return []
    order = [("quarantined_at", "descending"), *((name, "descending") for name in _PLACE)]
    newest: list[dict[str, Any]] = rows.sort_by(order).slice(0, limit).to_pylist()
    return newest


def _read(path: str, columns: list[str], condition: Any = None) -> pa.Table | None:
    table = open_table(path)
    return None if table is None else table.to_pyarrow_dataset().to_table(columns=columns, filter=condition)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def offsets_between(path: str, start: Positions, end: Positions) -> dict[tuple[str, int], pa.Array]:
    """Offsets of the records in a range that the table has, by topic and partition; without empty ones."""
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
