"""Files of every format become the same rows; batches are cut and ordered as declared."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline

SCHEMA = "id long, name string, price double"
ROWS = [{"id": 1, "name": "Wörter; 'ja'", "price": 1.5}, {"id": 2, "name": None, "price": None}]

# Options of each format, as a pipeline declares them and as the file is written.
OPTIONS: dict[str, dict[str, Any]] = {
    "json": {},
    "csv": {"sep": ";", "quote": "'", "escape": "\\", "encoding": "ISO-8859-1", "header": True},
    "parquet": {},
    "orc": {},
    "avro": {},
}


def orders(lake: Lake, file_format: str, **source: Any) -> LakePipeline:
    files = {"path": "landing/orders", "format": file_format, "schema": SCHEMA, **source}
    return lake.pipeline(
        "orders",
        source={"files": files},
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )


def land_rows(lake: Lake, file_format: str) -> None:
    """Write one file with Spark, and rename it into the folder."""
    written = lake.folder / "written"
    rows = lake.spark.createDataFrame([tuple(row.values()) for row in ROWS], SCHEMA).coalesce(1)
    rows.write.format(file_format).options(**OPTIONS[file_format]).save(str(written))
    (part,) = written.glob("part-*")
    folder = lake.root / "landing/orders"
    folder.mkdir(parents=True)
    part.rename(folder / part.name)


@pytest.mark.parametrize("file_format", OPTIONS)
def test_a_file_of_each_format_becomes_its_rows(lake: Lake, file_format: str) -> None:
    land_rows(lake, file_format)
    orders(lake, file_format, options=OPTIONS[file_format]).run_incremental()
    assert lake.rows("bronze/orders") == ROWS
    assert lake.quarantined("orders") == []


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, ["one;two", "three"]),
        ({"lineSep": ";"}, ["one", "two\nthree\n"]),
        ({"wholetext": True}, ["one;two\nthree\n"]),
    ],
    ids=["lines", "separated", "whole"],
)
def test_text_files_are_cut_as_declared(lake: Lake, options: dict[str, Any], values: list[str]) -> None:
    lake.land("landing/orders/a.txt", "one;two\nthree\n")
    orders(lake, "text", schema="value string", options=options).run_incremental()
    assert [row["value"] for row in lake.rows("bronze/orders")] == values


def test_folders_are_columns_and_the_newest_files_of_the_right_name_come_first(lake: Lake) -> None:
    for day in (1, 2, 3):
        lake.land_rows(f"landing/orders/day=2026-01-0{day}/a.json", [{"id": day}])
    lake.land_rows("landing/orders/day=2026-01-04/a.other", [{"id": 4}])
    pipeline = orders(
        lake,
        "json",
        schema="id long, day date",
        order="newest",
        max_files_per_batch=2,
        options={"pathGlobFilter": "*.json"},
    )
    pipeline.run_incremental()
    rows = {row["id"]: row["day"] for row in lake.rows("bronze/orders")}
    assert rows == {day: date(2026, 1, day) for day in (1, 2, 3)}
    assert [(c.entry.batch_id, c.rows) for c in lake.ledger("bronze/orders") if c.entry] == [(1, 1), (0, 2)]
    (first,) = (
        lake.spark.read.format("delta")
        .option("versionAsOf", 1)
        .load(str(lake.root / "tables/bronze/orders"))
        .selectExpr("min(id) as oldest")
        .collect()
    )
    assert first["oldest"] == 2


def test_a_batch_has_at_most_so_many_bytes_and_at_least_one_file(lake: Lake) -> None:
    for number, padding in enumerate([100, 100, 5_000, 100]):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number, "name": "x" * padding}])
    orders(lake, "json", max_bytes_per_batch="300b").run_incremental()
    ledger = lake.ledger("bronze/orders")
    assert [commit.rows for commit in reversed(ledger) if commit.entry] == [2, 1, 1]
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [0, 1, 2, 3]


def test_a_file_is_read_once_it_has_its_name(lake: Lake) -> None:
    pipeline = orders(lake, "json")
    lake.land_rows("landing/orders/1.json", [{"id": 1}])
    upload = lake.root / "landing/orders/_2.json"
    upload.write_text(json.dumps({"id": 2})[:-3])
    pipeline.run_incremental()
    assert [row["id"] for row in lake.rows("bronze/orders")] == [1]
    upload.write_text(json.dumps({"id": 2}))
    upload.rename(upload.with_name("2.json"))
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2]
    assert lake.quarantined("orders") == []
