"""Reading a quarantine table without a JVM. Record bytes are read only if asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.ledger.read import open_table

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")
_COLUMNS = ("quarantined_at", *_PLACE, "kafka_timestamp", "reason")


def count_reasons(path: str) -> list[dict[str, Any]]:
    """Records and newest time of each reason, most frequent first; empty without a table."""
    rows = _read(path, ["reason", "quarantined_at"])
    if rows is None:
        return []
    groups = rows.group_by("reason").aggregate([("quarantined_at", "count"), ("quarantined_at", "max")])
    found = groups.sort_by([("quarantined_at_count", "descending"), ("reason", "ascending")]).to_pylist()
    return [
        {"reason": row["reason"], "records": row["quarantined_at_count"], "newest": row["quarantined_at_max"]}
        for row in found
    ]


def newest_rejected(path: str, limit: int, *, raw: bool) -> list[dict[str, Any]]:
    """The records rejected last. With `raw`, also their bytes as text, undecodable ones escaped."""
    rows = _read(path, list(_COLUMNS))
    if rows is None:
        return []
    order = [("quarantined_at", "descending"), *((name, "descending") for name in _PLACE)]
    newest: list[dict[str, Any]] = rows.sort_by(order).slice(0, limit).to_pylist()
    return (
        [{**row, "raw": value} for row, value in zip(newest, _values(path, newest), strict=True)]
        if raw
        else newest
    )


def _values(path: str, rows: list[dict[str, Any]]) -> list[str | None]:
    """The bytes of some records; two passes, so that a large quarantine is not loaded as a whole."""
    import pyarrow.dataset as ds

    offsets = [row["kafka_offset"] for row in rows]
    found = _read(path, [*_PLACE, "kafka_value"], ds.field("kafka_offset").isin(offsets))
    values = {} if found is None else {_place(row): row["kafka_value"] for row in found.to_pylist()}
    return [_text(values.get(_place(row))) for row in rows]


def _read(path: str, columns: list[str], condition: Any = None) -> pa.Table | None:
    table = open_table(path)
    return None if table is None else table.to_pyarrow_dataset().to_table(columns=columns, filter=condition)


def _place(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in _PLACE)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
