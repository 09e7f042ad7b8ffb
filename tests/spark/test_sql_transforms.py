"""A transform that is a query gives what the function gives, in every mode."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.lake import Lake, LakePipeline
from tidemill.errors import DataError, SpecError

FUNCTION = """
from pyspark.sql import functions as F

def transform(readings, devices):
    warm = readings.where("signal > 15").join(devices, on="device", how="left")
    return warm.select("device", "site", F.round("signal", 1).alias("signal"))
"""
QUERY = """
-- Warm readings with their site.
SELECT device, site, round(signal, 1) AS signal
FROM readings LEFT JOIN devices USING (device)
WHERE signal > 15
"""
READINGS = [{"device": f"d{number}", "signal": 10.0 + number / 3} for number in range(30)]


def readings(lake: Lake, name: str, transform: str, **run: Any) -> LakePipeline:
    devices = {"device": [f"d{number}" for number in range(20)], "site": ["north"] * 20}
    if not (lake.root / "tables/silver/devices").exists():
        write_deltalake(str(lake.root / "tables/silver/devices"), pa.table(devices))
        lake.land_rows("landing/readings/1.json", READINGS)
    files = {"path": "landing/readings", "format": "json", "schema": "device string, signal double"}
    return lake.pipeline(
        name,
        sources={
            "readings": {"files": files},
            "devices": {"delta": {"table": "silver/devices"}, "as": "table"},
        },
        transform=transform,
        sinks=[{"delta": {"table": f"silver/{name}"}}],
        run={"mode": "incremental"},
    )


def query(lake: Lake, name: str, text: str) -> str:
    (lake.folder / f"spark_apps/transforms/{name}.sql").write_text(text)
    return f"{name}.sql"


def test_a_query_gives_the_rows_of_the_function(lake: Lake) -> None:
    readings(lake, "called", lake.transform("called", FUNCTION)).run_incremental()
    queried = readings(lake, "queried", query(lake, "queried", QUERY))
    queried.run_incremental()
    expected = lake.rows("silver/called")
    assert len(expected) == 14
    assert lake.rows("silver/queried") == expected
    assert [commit.entry.tables_read for commit in lake.ledger("silver/queried") if commit.entry] == [
        {"devices": 0}
    ]


def test_the_only_source_is_called_source_and_a_replaced_table_is_backfilled(lake: Lake) -> None:
    lake.land("landing/words/1.txt", "the mill\nthe pond\n")
    words = "SELECT explode(split(value, ' ')) AS word FROM source"
    pipeline = lake.pipeline(
        "words",
        source={"files": {"path": "landing/words", "format": "text"}},
        transform=query(
            lake, "words", f"WITH words AS ({words}) SELECT word, count(*) AS n FROM words GROUP BY 1"
        ),
        sinks=[{"delta": {"table": "gold/words", "mode": "replace"}}],
        run={"mode": "incremental"},
    )
    pipeline.backfill()
    counts = {row["word"]: row["n"] for row in lake.rows("gold/words")}
    pipeline.run_incremental()
    assert (
        {row["word"]: row["n"] for row in lake.rows("gold/words")}
        == counts
        == {"the": 2, "mill": 1, "pond": 1}
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT nmae FROM readings", "UNRESOLVED_COLUMN"),
        ("SELECT device FROM reading", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELEC device FROM readings", "PARSE_SYNTAX_ERROR"),
        ("", "PARSE_EMPTY_STATEMENT"),
        ("INSERT INTO delta.`/nowhere` SELECT * FROM readings", "one query; this is InsertInto"),
        ("WITH d AS (SELECT 1) INSERT INTO delta.`/nowhere` SELECT * FROM d", "one query"),
        ("CREATE TABLE nowhere AS SELECT * FROM readings", "one query; this is CreateTable"),
        ("DROP VIEW readings", "one query; this is DropView"),
        ("SET spark.sql.shuffle.partitions = 1", "one query; this is SetCommand"),
        ("EXECUTE IMMEDIATE 'INSERT INTO delta.`/nowhere` SELECT * FROM readings'", "one query"),
        ("BEGIN SELECT 1; END", "one query"),
        ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_is_no_query_is_refused_and_nothing_of_it_runs(lake: Lake, text: str, reason: str) -> None:
    with pytest.raises(DataError) as failed:
        readings(lake, "wrong", query(lake, "wrong", text)).run_incremental()
    assert failed.value.error_id == "TIDE-DATA-002"
    assert failed.value.facts["transform"] == "wrong.sql"
    assert reason in str(failed.value.facts["reason"])
    assert lake.data_files("silver/wrong") == []


def test_a_missing_file_is_refused_with_the_near_one(lake: Lake) -> None:
    query(lake, "queried", QUERY)
    with pytest.raises(SpecError) as missing:
        readings(lake, "missing", "querried.sql").resolved  # noqa: B018
    assert (missing.value.error_id, missing.value.fix) == ("TIDE-SPEC-015", "did you mean queried.sql?")
