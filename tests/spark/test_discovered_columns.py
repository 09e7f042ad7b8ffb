"""Files with undeclared columns: columns are inferred and added, and values that fit no column are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.checkpoint.source_schemas import SourceSchema, source_schemas
from tidemill.errors import DataError, UnavailableError

SECOND = {
    "delta": {
        "table": "silver/orders",
        "transform": "narrow:transform",
    }
}
NARROW = 'def transform(rows):\n    return rows.select("id")\n'


def orders(lake: Lake, evolution: str = "add_columns", **source: Any) -> LakePipeline:
    """Return a pipeline with one file per batch, and two tables, so that a crash can come between them."""
    lake.transform("narrow", NARROW)
    files = {"path": "landing/orders", "format": "json", "schema_evolution": evolution, **source}
    return lake.pipeline(
        "orders",
        source={"files": {"max_files_per_batch": 1, **files}},
        sinks=[{"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}}, SECOND],
        run={"mode": "incremental"},
    )


def land(lake: Lake, name: str, *rows: dict[str, Any], kind: str = "json") -> None:
    if kind == "json":
        lake.land_rows(f"landing/orders/{name}.json", rows)
        return
    # A file has its columns in the order of its first row.
    columns = list(rows[0])
    lines = [",".join(str(row.get(column, "")) for column in columns) for row in rows]
    lake.land(f"landing/orders/{name}.csv", "\n".join([",".join(columns), *lines]))


def versions(lake: Lake) -> list[SourceSchema]:
    return source_schemas(lake.store, LakePipeline(lake, "orders").resolved.layout, "orders", "source")


def rows(lake: Lake) -> list[dict[str, Any]]:
    """Return the rows of the data files without null values and without the folder of rescued data."""
    found = sorted(lake.rows("bronze/orders"), key=lambda row: row["id"])
    for row in found:
        if (rescued := row["_rescued_data"]) is not None:
            data = json.loads(rescued)
            row["_rescued_data"] = {**data, "_file_path": Path(data["_file_path"]).name}
    return [{name: value for name, value in row.items() if value is not None} for row in found]


FIRST = {"id": 1, "price": 1.5}
ZONED = {"id": 2, "price": 2, "zone": "north", "ID": 7}
PLACED = {"id": 3, "place": {"site": "a"}, "parts": [{"size": 7}], "price": "dear"}
DEEPER = {"id": 4, "place": {"site": "b", "floor": 4}, "parts": [{"size": 8, "kind": "bolt"}], "empty": []}
EXPECTED = [
    FIRST,
    {"id": 2, "price": 2.0, "zone": "north", "_rescued_data": {"ID": 7, "_file_path": "2.json"}},
    {
        "id": 3,
        "place": {"site": "a"},
        "parts": [{"size": 7}],
        "_rescued_data": {"price": "dear", "_file_path": "3.json"},
    },
    {
        "id": 4,
        "place": {"site": "b", "floor": 4},
        "parts": [{"size": 8, "kind": "bolt"}],
        "_rescued_data": {"empty": [], "_file_path": "4.json"},
    },
]


def test_columns_grow_with_the_files_whatever_crashes_and_nothing_is_lost(lake: Lake) -> None:
    pipeline = orders(lake)
    # Nothing to infer from: the driver waits.
    lake.land("landing/orders/0.json", "\nbroken\n[]\n")
    with pytest.raises(UnavailableError) as waits:
        pipeline.run_incremental()
    assert waits.value.error_id == "TIDE-SRC-008"
    assert versions(lake) == []
    land(lake, "1", FIRST)
    # Inferred, and killed before the first batch.
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("columns_kept"))
    assert [version.added for version in versions(lake)] == [("id", "price")]
    pipeline.run_incremental()
    for number, row in enumerate([ZONED, PLACED, DEEPER], start=2):
        land(lake, str(number), row)
    # Killed with the version kept and nothing of its batch written; then between the two tables.
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("columns_kept"))
    assert [version.version for version in versions(lake)] == [1, 2]
    assert rows(lake) == [FIRST]
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    assert len(rows(lake)) == 2
    pipeline.run_incremental()
    assert rows(lake) == EXPECTED
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2, 3, 4]
    assert [(version.version, version.added, version.batch_id) for version in versions(lake)] == [
        (1, ("id", "price"), None),
        (2, ("zone",), 2),
        (3, ("parts[].size", "place.site"), 3),
        (4, ("parts[].kind", "place.floor"), 4),
    ]
    entries = {c.entry.batch_id: c.entry for c in lake.ledger("bronze/orders") if c.entry is not None}
    told = {batch: (entry.source_schemas or {})["source"][:2] for batch, entry in entries.items()}
    assert told == {0: "1-", 1: "1-", 2: "2-", 3: "3-", 4: "4-"}
    assert entries[4].columns_added == ("parts[].kind", "place.floor")


def test_a_pipeline_that_rescues_keeps_its_columns_and_every_value(lake: Lake) -> None:
    land(lake, "1", FIRST)
    pipeline = orders(lake, "rescue", schema_hints="at timestamp, id long")
    pipeline.run_incremental()
    land(lake, "2", {**ZONED, "at": "2026-01-01T00:00:00Z"})
    land(lake, "3", {**PLACED, "at": "yesterday"})
    lake.land("landing/orders/4.json", '{"id": 5}\n\n{"id": 5, "id": 6}\nbroken\n')
    pipeline.run_incremental()
    found = rows(lake)
    assert found[1].pop("at").isoformat() == "2026-01-01T00:00:00+00:00"
    rescued = [
        {"zone": "north", "ID": 7, "_file_path": "2.json"},
        {**{name: value for name, value in PLACED.items() if name != "id"}, "at": "yesterday"},
    ]
    rescued[1]["_file_path"] = "3.json"
    assert found == [
        FIRST,
        {"id": 2, "price": 2.0, "_rescued_data": rescued[0]},
        {"id": 3, "_rescued_data": rescued[1]},
        {"id": 5},
    ]
    assert len(versions(lake)) == 1
    broken = sorted((row["line"], row["reason"], row["value"]) for row in lake.quarantined("orders"))
    assert broken == [
        (3, "duplicate_field:id", b'{"id": 5, "id": 6}'),
        (4, "malformed_json", b"broken"),
    ]


def test_names_of_files_and_folders_are_no_patterns_and_no_columns(lake: Lake) -> None:
    folder = "landing/orders/day=2026-01-01/value=7"
    lake.land(f"{folder}/a b%20[1].json", '{"id": 1, "day": "monday"}\n')
    pipeline = orders(lake)
    pipeline.run_incremental()
    broken = b'{"id": 2, "new": {"a": 1}'
    lake.land(f"{folder}/ü {{2,3}}*.json", broken.decode() + '\n{"id": 3}\n')
    pipeline.run_incremental()
    assert rows(lake) == [{"id": 1, "day": "monday"}, {"id": 3}]
    (rejected,) = lake.quarantined("orders")
    assert (rejected["line"], rejected["reason"], rejected["value"]) == (1, "malformed_json", broken)
    assert len(versions(lake)) == 1


@pytest.mark.soak
def test_a_pipeline_that_shall_stop_at_new_columns_writes_nothing_of_their_batch(lake: Lake) -> None:
    land(lake, "1", FIRST)
    pipeline = orders(lake, "fail")
    pipeline.run_incremental()
    land(lake, "2", ZONED)
    with pytest.raises(DataError) as refused:
        pipeline.run_incremental()
    assert (refused.value.error_id, refused.value.facts["new"]) == ("TIDE-DATA-006", ["zone"])
    assert rows(lake) == [FIRST]
    # A transform that names the column continues with it.
    orders(lake, "fail", schema_hints="zone string").run_incremental()
    assert rows(lake) == EXPECTED[:2]


FILES, PER_BATCH, NEW_SINCE = 200, 80, 150


@pytest.mark.soak
def test_a_backlog_is_read_once_by_a_stream_whose_columns_grow(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.engine.discovery.FIRST_FILES", 50)
    pipeline = lake.pipeline(
        "orders",
        source={
            "files": {
                "path": "landing/orders",
                "format": "json",
                "schema_evolution": "add_columns",
                "schema_hints": "at timestamp",
                "max_files_per_batch": PER_BATCH,
            }
        },
        event_time={"column": "at", "watermark": "10 minutes"},
        sinks=[{"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}}],
        run={"mode": "stream", "trigger": "0 seconds"},
    )
    for number in range(FILES):
        new = {"zone": f"z{number}"} if number >= NEW_SINCE else {}
        at = {"at": f"2026-01-01T00:{number % 60:02}:00Z"}
        land(lake, f"{number:04}", {"id": number, **at, **new}, {"id": FILES + number, **at, "odd": None})
    with running_stream(pipeline) as stream:
        stream.wait_until(lambda: len(lake.data_files("bronze/orders")) > 0, "a first batch")
        stream.wait_until(lambda: len(lake.rows("bronze/orders")) == 2 * FILES, "every row")
        stream.drain()

    def found() -> list[tuple[int, str | None, str | None]]:
        read = ((row["id"], row.get("zone"), row["_rescued_data"]) for row in lake.rows("bronze/orders"))
        return sorted(read, key=lambda row: row[0])

    expected = [
        (number, f"z{number}" if NEW_SINCE <= number < FILES else None, None) for number in range(2 * FILES)
    ]
    assert found() == expected
    assert [(version.added, version.batch_id) for version in versions(lake)] == [
        (("at", "id"), None),
        (("zone",), NEW_SINCE // PER_BATCH),
    ]


WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("at", "5 minutes")).agg(F.sum("value").alias("total"))
    return windows.select(F.col("window.start").alias("window_start"), "total")
"""


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_backfill_computes_windows_again_by_the_columns_that_are_known(lake: Lake, kind: str) -> None:
    files = {"path": "landing/orders", "format": kind, "schema_evolution": "add_columns"}

    def declared(**more: str) -> LakePipeline:
        return lake.pipeline(
            "orders",
            source={"files": {**files, "schema_hints": "at timestamp", **more}},
            event_time={"column": "at", "watermark": "1 minute"},
            transform=lake.transform("windows", WINDOWS),
            sinks=[{"delta": {"table": "silver/orders", "time": "window_start"}}],
            run={"mode": "incremental"},
        )

    pipeline = declared()

    def totals() -> list[float]:
        return [row["total"] for row in sorted(lake.rows("silver/orders"), key=lambda r: r["window_start"])]

    hour = "2026-01-01T00"
    first = ({"at": f"{hour}:{minute:02}:00Z", "value": minute} for minute in (1, 2, 6, 30))
    land(lake, "1", *first, kind=kind)
    pipeline.run_incremental()
    land(
        lake,
        "2",
        {"zone": "north", "value": 50, "at": f"{hour}:50:00Z"},
        {"value": 9, "at": f"{hour}:02:30Z"},
        kind=kind,
    )
    pipeline.run_incremental()
    assert totals() == [3, 6, 30]
    range_of_time = (f"{hour}:00:00Z", f"{hour}:10:00Z")
    pipeline.backfill(*range_of_time)
    # The backfill includes the row that was too late for its window.
    assert totals() == [12, 6, 30]
    known = len(versions(lake))
    land(lake, "3", {"at": f"{hour}:03:00Z", "value": 100, "floor": 1}, kind=kind)
    # The stream will read it, with its columns.
    pipeline.backfill(*range_of_time)
    assert (totals(), len(versions(lake))) == ([12, 6, 30], known)
    # If the stream may skip files, the backfill reads them.
    with pytest.raises(DataError) as refused:
        declared(max_file_age="7 days").backfill(*range_of_time)
    assert (refused.value.error_id, refused.value.facts["new"]) == ("TIDE-DATA-009", ["floor"])
    assert (totals(), len(versions(lake))) == ([12, 6, 30], known)
