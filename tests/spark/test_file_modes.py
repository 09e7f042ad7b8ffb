"""Files with broken records, and damaged files: stream, incremental run and backfill agree on all of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream

SCHEMA = "id long, at timestamp, price decimal(8, 2)"
NOON = "2026-03-01T12:00:00Z"
TRANSFORM = """
from pyspark.sql import functions as F


def transform(rows):
    hours = rows.groupBy(F.window("at", "1 hour"))
    sums = hours.agg(F.array_sort(F.collect_list("id")).alias("ids"), F.sum("price").alias("price"))
    return sums.select(F.col("window.start").alias("window_start"), "ids", "price")
"""

JSON_FILES = {
    "a": [{"id": 1, "at": NOON, "price": 1.5}, {"id": 2, "at": NOON, "price": "2.25"}],
    "2026/03/b": [{"id": 3, "at": NOON, "price": 1.005}, {"id": 1.0, "at": NOON}, {"id": "x", "at": NOON}],
}
JSON_REASONS = {("b", 1, "out_of_range:price"), ("b", 3, "wrong_type:id"), ("c", 1, "malformed_json")}
CSV_FILES = {
    "a": "price,id,at\n1.50,1,{noon}\n2.25,2,{noon}\n",
    "2026/03/b": 'at,id,price\n{noon},3,"1,5"\n{noon},1,\n"{noon}",x,\n',
}
CSV_REASONS = {("b", 2, "wrong_type:price"), ("b", 4, "wrong_type:id"), ("c", 1, "bad_header:no_known_name")}


def land(lake: Lake, file_format: str) -> None:
    for name in ("a", "2026/03/b"):
        if file_format == "json":
            lake.land_rows(f"landing/orders/{name}", JSON_FILES[name])
        else:
            lake.land(f"landing/orders/{name}", CSV_FILES[name].format(noon=NOON))
    lake.land("landing/orders/c", '{"id": 4' if file_format == "json" else "4")
    torn = lake.land("landing/orders/d.gz", "")
    torn.write_bytes(gzip.compress(b"{}" * 1000)[:-10])
    last = {"id": 9, "at": "2026-03-02T12:00:00Z", "price": 1}
    lake.land(
        "landing/orders/last",
        json.dumps(last) + "\n" if file_format == "json" else f"id,at\n9,{last['at']}\n",
    )


def orders(lake: Lake, file_format: str, mode: str) -> LakePipeline:
    files: dict[str, Any] = {"path": "landing/orders", "format": file_format, "schema": SCHEMA}
    if file_format == "csv":
        files["options"] = {"header": True}
    return lake.pipeline(
        "orders",
        source={"files": {**files, "max_files_per_batch": 2}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("orders", TRANSFORM),
        sinks=[{"delta": {"table": "silver/orders", "mode": "append"}}],
        run={"mode": mode},
    )


def by_stream(pipeline: LakePipeline) -> None:
    with running_stream(pipeline) as stream:
        stream.wait_until(
            lambda: any(commit.rows for commit in pipeline.lake.ledger("silver/orders")),
            "the hour is closed",
        )


def by_run(pipeline: LakePipeline) -> None:
    pipeline.run_incremental()


def by_backfill(pipeline: LakePipeline) -> None:
    pipeline.backfill("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")


@pytest.mark.parametrize(("file_format", "reasons"), [("json", JSON_REASONS), ("csv", CSV_REASONS)])
@pytest.mark.parametrize("way", [by_stream, by_run, by_backfill])
def test_stream_incremental_run_and_backfill_agree_on_rows_and_rejected_records(
    lake: Lake, file_format: str, reasons: set[tuple[str, int, str]], way: Callable[[LakePipeline], None]
) -> None:
    land(lake, file_format)
    way(orders(lake, file_format, "stream" if way is by_stream else "incremental"))
    (row,) = lake.rows("silver/orders")
    assert (row["ids"], str(row["price"])) == ([1, 1, 2], "3.75")
    rejected = lake.quarantined("orders")
    damaged = [each for each in rejected if each["line"] is None]
    assert [Path(each["file"]).name for each in damaged] == ["d.gz"]
    assert damaged[0]["reason"].startswith("damaged_file:gz: ")
    lines = {(Path(each["file"]).name, each["line"], each["reason"]) for each in rejected if each["line"]}
    assert lines == reasons
    assert len(rejected) == len(reasons) + 1


def test_progress_and_status_count_records_and_rejected_files(lake: Lake) -> None:
    land(lake, "json")
    reporter = orders(lake, "json", "incremental").run_incremental()
    assert reporter.query.report is not None
    told = [each["numInputRows"] for each in reporter.query.report.recent_progress]
    # 2 and 3 lines; a torn line and a torn file; the last line; the window closes.
    assert [rows for rows in told if rows] == [5, 2, 1]
    assert reporter.status.rows == 8
