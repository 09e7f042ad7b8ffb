"""Files with lines that do not fit, with events from the future, and old files: nothing is lost unsaid."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tidemill.engine.classify import classify
from tidemill.errors import DataError

SCHEMA = "id long, at timestamp, price double"
GOOD = {"id": 1, "at": "2024-01-01T00:00:00Z", "price": 1.5}

JSON_LINES = [
    json.dumps(GOOD),
    '{"id": "x"}',
    "",
    '{"id": 2',
    '{"id": 3, "price": NaN}',
    json.dumps(GOOD),
    '{"id": 2',
    '{"id": 4, "at": "yesterday"}',
]
CSV_LINES = [
    "id,at,price",
    "1,2024-01-01T00:00:00Z,1.5",
    "x,,1",
    "",
    "5",
    "6,2024-01-01T00:00:00Z,1,9",
    "x,,1",
]

EVENT_TIME = {"column": "at", "watermark": "10 minutes"}

WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    counts = orders.groupBy(F.window("at", "5 minutes")).count()
    return counts.select(F.col("window.start").alias("at"), "count")
"""

# Spark cuts a file of this size into blocks, one for each core at least.
LARGE = 120_000


def orders(
    lake: Lake, file_format: str, event_time: dict[str, Any] | None = None, **source: Any
) -> LakePipeline:
    files = {"path": "landing/orders", "format": file_format, "schema": SCHEMA, **source}
    return lake.pipeline(
        "orders",
        source={"files": files},
        **({} if event_time is None else {"event_time": event_time}),
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )


def land(lake: Lake, name: str, lines: list[str]) -> Path:
    return lake.land(f"landing/orders/{name}", "\n".join(lines) + "\n")


def rejected(lake: Lake) -> list[tuple[str, int | None, str]]:
    """File, line and text."""
    rows = lake.quarantined("orders")
    return sorted((Path(row["file"]).name, row["line"], row["value"].decode()) for row in rows)


JSON_REASONS = {
    2: "wrong_type:id",
    4: "malformed_json",
    5: "not_finite:price",
    7: "malformed_json",
    8: "wrong_type:at",
}
CSV_REASONS = {3: "wrong_type:id", 5: "wrong_field_count", 6: "wrong_field_count", 7: "wrong_type:id"}


@pytest.mark.parametrize(
    ("file_format", "lines", "broken", "options"),
    [("json", JSON_LINES, JSON_REASONS, {}), ("csv", CSV_LINES, CSV_REASONS, {"header": True})],
    ids=["json", "csv"],
)
def test_broken_lines_go_to_the_quarantine_with_their_place_and_text(
    lake: Lake, file_format: str, lines: list[str], broken: dict[int, str], options: dict[str, Any]
) -> None:
    pipeline = orders(lake, file_format, options=options)
    file = land(lake, "a", lines)
    land(lake, "b", lines[:2])
    reporter = pipeline.run_incremental()
    expected = [("a", line, lines[line - 1]) for line in broken]
    expected += [("b", line, lines[line - 1]) for line in broken if line <= 2]
    assert rejected(lake) == expected
    reasons = {(row["line"], row["reason"]) for row in lake.quarantined("orders")}
    assert reasons == set(broken.items())
    (arrived,) = {row["arrived_at"] for row in lake.quarantined("orders") if Path(row["file"]).name == "a"}
    assert arrived.timestamp() == pytest.approx(file.stat().st_mtime, abs=0.01)
    good = [row["id"] for row in lake.rows("bronze/orders")]
    assert good == [1, 1, 1] if file_format == "json" else [1, 1]
    assert reporter.status.quarantined_rows == len(expected)


@pytest.mark.soak
def test_a_backfill_finds_the_same_broken_lines_however_often_it_runs(lake: Lake) -> None:
    pipeline = orders(lake, "json", event_time=EVENT_TIME)
    land(lake, "a", JSON_LINES)
    for _ in range(2):
        pipeline.backfill("2020-01-01", "2030-01-01")
        assert [(line, text) for _, line, text in rejected(lake)] == [
            (line, JSON_LINES[line - 1]) for line in (2, 4, 5, 7, 8)
        ]
        assert [row["id"] for row in lake.rows("bronze/orders")] == [1, 1]


def test_a_backfill_leaves_files_that_the_stream_has_not_read_to_the_stream(lake: Lake) -> None:
    """Otherwise their broken lines would be in quarantine twice, and their late rows in a window as well."""
    windows = lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": SCHEMA}},
        event_time={**EVENT_TIME, "late": "table"},
        transform=lake.transform("windows", WINDOWS),
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    later = json.dumps({**GOOD, "at": "2024-01-02T00:00:00Z"})
    land(lake, "a", [json.dumps(GOOD), "{", later])
    windows.run_incremental()
    late = json.dumps({**GOOD, "id": 2})
    land(lake, "b", ["}", late])
    windows.backfill("2024-01-01", "2024-01-01T01:00:00Z")
    assert [(name, line) for name, line, _ in rejected(lake)] == [("a", 2)]

    windows.run_incremental()

    assert [(name, line) for name, line, _ in rejected(lake)] == [("a", 2), ("b", 1)]
    assert [row["count"] for row in lake.rows("bronze/orders")] == [1]
    assert [json.loads(row["value"])["id"] for row in lake.late("orders")] == [2]


@pytest.mark.soak
def test_lines_of_a_file_that_is_read_in_blocks_are_counted_from_its_beginning(lake: Lake) -> None:
    lines = [json.dumps({**GOOD, "id": number}) for number in range(LARGE)]
    places = (1, 777, LARGE // 2, LARGE - 1)
    for place in places:
        lines[place - 1] = "{" if place != 777 else "broken"
    land(lake, "a", lines)
    orders(lake, "json").run_incremental()
    assert [(line, text) for _, line, text in rejected(lake)] == [
        (place, lines[place - 1]) for place in places
    ]
    assert len(lake.rows("bronze/orders")) == LARGE - len(places)


def test_bytes_that_are_no_text_are_kept_as_they_are(lake: Lake) -> None:
    file = land(lake, "a", [json.dumps(GOOD)])
    file.write_bytes(b'{"id": "\xff\xfe"\n' + file.read_bytes())
    orders(lake, "json").run_incremental()
    (row,) = lake.quarantined("orders")
    assert (row["line"], row["value"]) == (1, b'{"id": "\xff\xfe"')


def test_a_pipeline_that_shall_stop_at_a_broken_line_says_in_which_file(lake: Lake) -> None:
    land(lake, "a", JSON_LINES)
    with pytest.raises(Exception, match="TIDE-DATA-001") as failed:
        orders(lake, "json", on_invalid="fail").run_incremental()
    error = classify(failed.value)
    assert (type(error), error.facts["reason"]) == (DataError, "wrong_type:id")
    assert str(error.facts["file"]).endswith("landing/orders/a")


@pytest.mark.parametrize("source", ["files", "delta"])
def test_an_event_from_the_future_is_rejected_from_files_and_tables_too(lake: Lake, source: str) -> None:
    rows = [GOOD, {**GOOD, "id": 2, "at": "9999-12-31T23:59:59Z"}, {"id": 3}]
    if source == "files":
        lake.land_rows("landing/orders/a", rows)
        declared: dict[str, Any] = {"files": {"path": "landing/orders", "format": "json", "schema": SCHEMA}}
    else:
        frame = lake.spark.read.schema(SCHEMA).json(
            lake.spark.sparkContext.parallelize(map(json.dumps, rows))
        )
        frame.write.format("delta").save(str(lake.root / "tables/bronze/raw"))
        declared = {"delta": {"table": "bronze/raw"}}
    pipeline = lake.pipeline(
        "orders",
        source=declared,
        event_time=EVENT_TIME,
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 3]
    (row,) = lake.quarantined("orders")
    assert (row["reason"], json.loads(row["value"])["id"]) == ("ahead_of_arrival:at", 2)
    assert (row["file"] is not None) == (source == "files")


@pytest.mark.parametrize(("limit", "ids"), [({}, [1, 2]), ({"max_file_age": "7 days"}, [1])])
def test_a_file_that_is_older_than_those_read_is_read_unless_the_pipeline_says_otherwise(
    lake: Lake, limit: dict[str, str], ids: list[int]
) -> None:
    pipeline = orders(lake, "json", **limit)
    lake.land_rows("landing/orders/new", [GOOD])
    pipeline.run_incremental()
    file = lake.land_rows("landing/orders/old", [{**GOOD, "id": 2}])
    month_ago = time.time() - 30 * 24 * 3600
    os.utime(file, (month_ago, month_ago))
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == ids
