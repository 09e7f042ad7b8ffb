"""Rows of a topic that violate expectations are reported with their offset, and alike in every mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.kafka import Kafka
from tests.support.lake import Lake, LakePipeline
from tidemill.errors import DataError, SpecError
from tidemill.ledger.entry import ExpectationCounts

SCHEMA = {"temperature": {"type": "number"}, "at": {"type": "string", "format": "date-time"}}
WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("at", "5 minutes")).agg(F.max("temperature").alias("peak"))
    return windows.select(F.col("window.start").alias("start"), "peak")
"""


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Return an event each minute, the temperature ten times as much, then one that cannot be read."""
    events = [{"temperature": 10.0 * minute, "at": f"2024-01-01T00:0{minute}:00Z"} for minute in range(10)]
    return kafka.topic_with([*(json.dumps(event).encode() for event in events), b"{"])


def below(limit: int, on_violation: str = "quarantine") -> dict[str, Any]:
    return {"cool": {"expect": f"temperature < {limit}", "on_violation": on_violation}}


def readings(lake: Lake, topic: str, *sinks: dict[str, Any], **declared: Any) -> LakePipeline:
    return lake.pipeline(
        "readings",
        source={"kafka": {"topic": topic, "starting_offsets": "earliest"}},
        payload={"json": {"schema": lake.schema("reading.json", SCHEMA)}},
        event_time={"column": "at", "watermark": "10 minutes"},
        sinks=[{"delta": sink} for sink in sinks],
        run={"mode": "incremental"},
        **declared,
    )


def minutes(lake: Lake, table: str) -> list[int]:
    return sorted(row["at"].minute for row in lake.rows(table))


def aside(lake: Lake) -> dict[str, list[int]]:
    """Minutes, which are offsets, of the quarantine's events, by the table that does not take them."""
    found: dict[str, list[int]] = {}
    for row in lake.quarantined("readings"):
        found.setdefault(row["reason"], []).append(row["offset"])
        assert row["arrived_at"] is not None
        if row["reason"].startswith("expectation:"):
            assert json.loads(row["value"])["temperature"] == 10.0 * row["offset"]
    return {name: sorted(places) for name, places in found.items()}


@pytest.mark.soak
def test_stream_backfill_and_verify_agree_and_new_expectations_move_the_rows_of_their_range(
    lake: Lake, topic: str
) -> None:
    silver = {"table": "silver/readings", "where": "temperature > 50", "expectations": below(75)}
    pipeline = readings(lake, topic, {"table": "bronze/readings", "expectations": below(80)}, silver)
    pipeline.run_incremental()

    bronze_cool = "expectation:bronze/readings:cool"
    first = {bronze_cool: [8, 9], "expectation:silver/readings:cool": [8, 9], "malformed_json": [10]}
    assert (minutes(lake, "bronze/readings"), aside(lake)) == (list(range(8)), first)
    assert minutes(lake, "silver/readings") == [6, 7]

    # Bronze now accepts all rows of the first nine minutes. The tenth keeps the result of the older rule.
    pipeline = readings(lake, topic, {"table": "bronze/readings", "expectations": below(100)}, silver)
    plan = pipeline.plan("2024-01-01T00:00:00Z", "2024-01-01T00:09:00Z")
    pipeline.apply(plan)
    assert (minutes(lake, "bronze/readings"), minutes(lake, "silver/readings")) == (list(range(9)), [6, 7])
    assert aside(lake) == {**first, bronze_cool: [9]}
    assert {name: (d.missing, d.surplus) for name, d in pipeline.verify(plan).items()} == dict.fromkeys(
        ("bronze/readings", "silver/readings", "quarantine"), (0, 0)
    )
    newest = lake.ledger("bronze/readings")[0].entry
    assert newest is not None
    assert newest.expectations == ExpectationCounts(checked=9, violations={"cool": 0})

    # An expectation with `on_violation: fail` stops a backfill before anything is written.
    failing = readings(lake, topic, {"table": "bronze/readings", "expectations": below(80, "fail")}, silver)
    with pytest.raises(DataError) as failed:
        failing.backfill("2024-01-01T00:00:00Z", "2024-01-01T00:09:00Z")
    assert failed.value.error_id == "TIDE-EXP-001"
    place = {name: failed.value.facts[name] for name in ("topic", "partition", "offset")}
    assert place == {"topic": topic, "partition": 0, "offset": 8}
    assert (minutes(lake, "bronze/readings"), aside(lake)[bronze_cool]) == (list(range(9)), [9])


def test_rows_that_are_made_of_many_records_have_no_place_in_the_quarantine(lake: Lake, topic: str) -> None:
    hot = {"cool": {"expect": "peak < 80", "on_violation": "quarantine"}}
    windows = lake.transform("windows", WINDOWS)
    sink = {"table": "silver/windows", "time": "start", "expectations": hot}
    with pytest.raises(SpecError) as refused:
        readings(lake, topic, sink, transform=windows).run_incremental()
    assert refused.value.error_id == "TIDE-EXP-003"
    assert refused.value.facts["lacking"] == "kafka_topic, kafka_partition, kafka_offset"
