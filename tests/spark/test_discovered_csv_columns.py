"""CSV files with undeclared columns: columns are found by the names in each file's header, in any order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.checkpoint.source_schemas import SourceSchema, source_schemas
from tidemill.errors import UnavailableError

NARROW = 'def transform(rows):\n    return rows.select("id")\n'
SECOND = {"delta": {"table": "silver/orders", "transform": "narrow:transform"}}


def orders(lake: Lake, evolution: str = "add_columns", **source: Any) -> LakePipeline:
    """Return a pipeline with one file per batch, and two tables, so that a crash can come between them."""
    lake.transform("narrow", NARROW)
    files = {"path": "landing/orders", "format": "csv", "schema_evolution": evolution, **source}
    return lake.pipeline(
        "orders",
        source={"files": {"max_files_per_batch": 1, **files}},
        sinks=[{"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}}, SECOND],
        run={"mode": "incremental"},
    )


def land(lake: Lake, name: str, *lines: str) -> None:
    lake.land(f"landing/orders/{name}.csv", "\n".join(lines) + "\n")


def versions(lake: Lake) -> list[SourceSchema]:
    return source_schemas(lake.store, LakePipeline(lake, "orders").resolved.layout, "orders", "source")


def rows(lake: Lake) -> list[dict[str, Any]]:
    """Return the rows of the data files without null values and without the folder of rescued data."""
    found = sorted(lake.rows("bronze/orders"), key=lambda row: row["id"] or 0)
    for row in found:
        if (rescued := row["_rescued_data"]) is not None:
            data = json.loads(rescued)
            row["_rescued_data"] = {**data, "_file_path": Path(data["_file_path"]).name}
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def broken(lake: Lake) -> list[tuple[str, int, str, bytes]]:
    """Rejected records as file, line, reason and bytes."""
    return sorted(
        (Path(row["file"]).name, row["line"], row["reason"], row["value"])
        for row in lake.quarantined("orders")
    )


@pytest.mark.soak
def test_columns_are_known_by_name_and_grow_whatever_crashes_and_nothing_is_lost(lake: Lake) -> None:
    pipeline = orders(lake)
    # A header alone says nothing of types: the driver waits.
    land(lake, "0", "id,price,code")
    with pytest.raises(UnavailableError) as waits:
        pipeline.run_incremental()
    assert (waits.value.error_id, versions(lake)) == ("TIDE-SRC-008", [])
    land(lake, "1", "id,price,code", "1,1.5,007")
    # Inferred, and killed before the first batch.
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("columns_kept"))
    assert [version.added for version in versions(lake)] == [("code", "id", "price")]
    pipeline.run_incremental()
    # Another order; a new column in the middle; fewer columns, and values of other types.
    land(lake, "2", "code,price,id", "b7,2.0,2")
    land(lake, "3", "price,zone,id,ID", '3.5,"north, ""upper""\nfloor",3,x', ",,4,")
    land(lake, "4", "place,id", "shed,5", "barn,five")
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("columns_kept"))
    assert [version.version for version in versions(lake)] == [1, 2]
    assert [row["id"] for row in rows(lake)] == [1, 2]
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    assert [row["id"] for row in rows(lake)] == [1, 2, 3, 4]
    pipeline.run_incremental()
    five, *others = rows(lake)
    assert others == [
        {"id": 1, "price": 1.5, "code": "007"},
        {"id": 2, "price": 2.0, "code": "b7"},
        {
            "id": 3,
            "price": 3.5,
            "zone": 'north, "upper"\nfloor',
            "_rescued_data": {"ID": "x", "_file_path": "3.csv"},
        },
        {"id": 4},
        {"id": 5, "place": "shed"},
    ]
    assert five == {"place": "barn", "_rescued_data": {"id": "five", "_file_path": "4.csv"}}
    assert len(lake.rows("silver/orders")) == 6
    assert lake.quarantined("orders") == []
    assert [(version.version, version.added, version.batch_id) for version in versions(lake)] == [
        (1, ("code", "id", "price"), None),
        (2, ("zone",), 3),
        (3, ("place",), 4),
    ]
    entries = {c.entry.batch_id: c.entry for c in lake.ledger("bronze/orders") if c.entry is not None}
    told = {batch: (entry.source_schemas or {})["source"][:2] for batch, entry in entries.items()}
    assert told == {0: "1-", 1: "1-", 2: "1-", 3: "2-", 4: "3-"}


def test_what_is_no_record_is_rejected_with_its_place_and_the_rest_is_rescued(lake: Lake) -> None:
    land(lake, "1", "\ufeffid;at;cost", "1;2026-01-01T00:00:00Z;1,50")
    hints = "at timestamp, cost decimal(5, 2), id long"
    pipeline = orders(lake, "rescue", schema_hints=hints, options={"sep": ";", "header": "true"})
    pipeline.run_incremental()
    land(
        lake,
        "2",
        "cost;id;zone",
        "2.50;2;7",
        "",
        "1;2",
        '"two\nlines";3;',
        '4.5;4;"open',
        "5;5;5;5",
        "6;6;6",
    )
    land(lake, "3", "7;2026-01-01T00:00:00Z;70", "8;2026-01-01T00:00:00Z;8")
    land(lake, "4", "id;id", "9;9")
    land(lake, "5", "id;;at", "9;9;")
    pipeline.run_incremental()
    found = {row["id"]: row for row in rows(lake)}
    assert sorted(found) == [1, 2, 3, 6]
    assert found[1]["_rescued_data"] == {"cost": "1,50", "_file_path": "1.csv"}
    assert found[2]["_rescued_data"] == {"zone": 7, "_file_path": "2.csv"}
    assert (str(found[2]["cost"]), found[1]["at"].isoformat()) == ("2.50", "2026-01-01T00:00:00+00:00")
    assert found[3]["_rescued_data"] == {"cost": "two\nlines", "_file_path": "2.csv"}
    assert found[6]["_rescued_data"] == {"zone": 6, "_file_path": "2.csv"}
    assert len(versions(lake)) == 1
    twice, empty, none = "repeated_name:id", "empty_name", "no_known_name"
    assert broken(lake) == [
        ("2.csv", 4, "wrong_field_count", b"1;2"),
        ("2.csv", 7, "malformed_csv", b'4.5;4;"open'),
        ("2.csv", 8, "wrong_field_count", b"5;5;5;5"),
        ("3.csv", 1, f"bad_header:{none}", b"7;2026-01-01T00:00:00Z;70"),
        ("3.csv", 2, f"bad_header:{none}", b"8;2026-01-01T00:00:00Z;8"),
        ("4.csv", 1, f"bad_header:{twice}", b"id;id"),
        ("4.csv", 2, f"bad_header:{twice}", b"9;9"),
        ("5.csv", 1, f"bad_header:{empty}", b"id;;at"),
        ("5.csv", 2, f"bad_header:{empty}", b"9;9;"),
    ]
