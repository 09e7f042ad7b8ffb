"""The kit for tests of pipelines: the engine runs as in production, only the ends are the test's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.lake import Lake
from tidemill import testing
from tidemill.errors import UsageError
from tidemill.ledger.read import read_ledger

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.soak
def test_each_advance_is_a_start_that_goes_on_from_the_last_one_and_late_records_are_seen(lake: Lake) -> None:
    lake.pipeline(
        "orders",
        source={"kafka": {"topic": "orders", "headers": True}},
        payload={
            "json": {"schema": lake.schema("order.json", {"at": {"type": "string", "format": "date-time"}})}
        },
        event_time={"column": "at", "watermark": "10 minutes", "late": "table"},
        sinks=[{"delta": {"table": "bronze/orders"}}],
    )
    run = testing.pipeline(lake.folder / "conf/pipelines/orders.yaml", lake.folder / "test", lake.spark)
    run.add_rows([{"at": START + timedelta(minutes=100)}])
    run.add_payloads([b'{"at": 1}', None])
    status = run.advance()
    assert (status.rows, status.quarantined_rows) == (3, 2)
    for minute in (101, 1):
        run.add_rows([{"at": START + timedelta(minutes=minute)}])
        run.advance()
    assert [(row["kafka_offset"], row["kafka_headers"]) for row in run.table("bronze/orders")] == [
        (0, None),
        (3, None),
    ]
    assert sorted(row["reason"] for row in run.quarantine()) == ["null_value", "wrong_type:at"]
    assert [row["offset"] for row in run.late()] == [4]
    ledger = read_ledger(run.resolved.layout.table("bronze/orders"))
    assert [commit.entry.epoch for commit in ledger if commit.entry and commit.rows] == [2, 1]
    assert not lake.root.exists()


JOINED = """
def transform(readings, devices, owners):
    return (
        readings.join(devices, on="device", how="left")
        .join(owners, on="device", how="left")
        .select("device", "at", "site", "owner")
    )
"""


def test_files_of_any_format_and_tables_are_handed_in_by_the_names_of_the_sources(lake: Lake) -> None:
    files = {
        "path": "abfss://a@not.reached/b",
        "format": "parquet",
        "schema": "device string, at timestamp",
    }
    lake.pipeline(
        "joined",
        sources={
            "readings": {"files": files},
            "devices": {"delta": {"table": "silver/devices"}, "as": "table"},
            "owners": {
                "files": {
                    "path": "abfss://a@not.reached/owners.csv",
                    "format": "csv",
                    "schema": "device string, owner string",
                },
                "as": "table",
            },
        },
        transform=lake.transform("joined", JOINED),
        sinks=[{"delta": {"table": "silver/joined", "partition_by": ["site"]}}, {"console": {}}],
    )
    run = testing.pipeline(lake.folder / "conf/pipelines/joined.yaml", lake.folder / "test", lake.spark)
    run.add_rows([{"device": "a", "site": None}], to="devices", columns="device string, site string")
    run.add_rows([{"device": "b", "site": "mill"}], to="devices")
    run.add_rows([{"device": "a", "owner": "ada"}], to="owners")
    run.add_rows([{"device": "b", "at": START}, {"device": "a"}])
    with pytest.raises(UsageError) as misfit:
        run.add_rows([{"device": "a", "at": "2024-01-01T00:00:00Z"}])
    assert misfit.value.error_id == "TIDE-TEST-003"
    run.advance()
    expected = [
        {"device": "a", "at": None, "site": None, "owner": "ada"},
        {"device": "b", "at": START, "site": "mill", "owner": None},
    ]
    assert run.table("silver/joined") == expected
    assert sorted(run.sent("console"), key=lambda row: str(row["device"])) == expected


PER_BATCH = """
from pyspark.sql import functions as F

def transform(rows):
    return rows.agg(F.count("*").alias("rows"))
"""


def test_a_result_that_depends_on_batches_is_told_with_the_smallest_split(lake: Lake) -> None:
    lake.pipeline(
        "counted",
        source={"files": {"path": "landing", "format": "text"}},
        sinks=[{"delta": {"table": "gold/counted", "transform": lake.transform("counted", PER_BATCH)}}],
    )
    file = lake.folder / "conf/pipelines/counted.yaml"
    with pytest.raises(AssertionError) as failed:
        testing.assert_same_result(file, [{"value": "a"}, {"value": "b"}], lake.folder / "runs", lake.spark)
    assert str(failed.value).splitlines() == [
        "counted: 2 rows give another result than in one batch if they come as: cut before row 1",
        "  gold/counted: 1 rows only in one batch",
        "    {'rows': 2}",
        "  gold/counted: 2 rows only so",
        "    {'rows': 1}",
        "    {'rows': 1}",
    ]


WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    if not readings.isStreaming:
        readings = readings.{in_a_backfill}
    windows = readings.groupBy(F.window("at", "5 minutes")).agg(F.count("*").alias("readings"))
    return windows.select(F.col("window.start").alias("start"), "readings")
"""
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}],
}
# If these rows come in two batches, rows after the third one can be late.
READINGS = [{"at": START + timedelta(minutes=minute)} for minute in (1, 2, 60, 3, 61, 62, 4, 200)]


def windows(lake: Lake, name: str, in_a_backfill: str) -> Path:
    (lake.folder / "conf/schemas/reading.avsc").write_text(json.dumps(READING))
    lake.pipeline(
        name,
        source={"kafka": {"topic": "readings"}},
        payload={"avro": {"schema": "reading.avsc", "framing": "confluent", "writers": "registry"}},
        event_time={"column": "at", "watermark": "10 minutes", "late": "table"},
        transform=lake.transform(name, WINDOWS.replace("{in_a_backfill}", in_a_backfill)),
        sinks=[{"delta": {"table": "silver/windows"}}, {"console": {}}],
    )
    return lake.folder / f"conf/pipelines/{name}.yaml"


def test_late_rows_and_runs_that_crash_leave_one_result(lake: Lake) -> None:
    file = windows(lake, "windows", "where('true')")
    testing.assert_same_result(file, READINGS, lake.folder / "runs", lake.spark, splits=1, with_crashes=True)


@pytest.mark.soak
def test_a_result_that_a_backfill_changes_is_told_without_what_is_not_to_blame(lake: Lake) -> None:
    file, rows = windows(lake, "windows", "where('false')"), [READINGS[0], READINGS[2]]
    with pytest.raises(AssertionError) as failed:
        testing.assert_same_result(
            file, rows, lake.folder / "runs", lake.spark, splits=1, with_crashes=True, with_backfill=True
        )
    *told, row = str(failed.value).splitlines()
    assert told == [
        "windows: 2 rows give another result than in one batch if they come as: one batch, each batch "
        "followed by a backfill",
        "  silver/windows: 1 rows only in one batch",
    ]
    assert row.endswith("'readings': 1}")


def test_a_pipeline_that_gives_no_row_proves_nothing(lake: Lake) -> None:
    lake.pipeline(
        "empty",
        source={"files": {"path": "landing", "format": "text"}},
        sinks=[{"delta": {"table": "gold/empty", "where": "value = 'c'"}}],
    )
    file = lake.folder / "conf/pipelines/empty.yaml"
    with pytest.raises(UsageError) as refused:
        testing.assert_same_result(file, [{"value": "a"}, {"value": "b"}], lake.folder / "runs", lake.spark)
    assert (refused.value.error_id, refused.value.facts) == (
        "TIDE-TEST-006",
        {"pipeline": "empty", "rows": 2},
    )
