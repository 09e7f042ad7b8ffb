"""One event from the future: it goes to the quarantine, and makes no other event late."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.kafka import TIMEOUT_SECONDS, Kafka
from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tests.support.writer_cases import CrashedError, crash_at

SCHEMA = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    counts = readings.groupBy(F.window("at", "5 minutes")).count()
    return counts.select(F.col("window.start").alias("window_start"), "count")
"""
FAR = "9999-12-31T23:59:59Z"
REASON = "ahead_of_arrival:at"


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.new_topic("readings")


def windows(lake: Lake, topic: str, name: str = "windows", **event_time: Any) -> LakePipeline:
    return lake.pipeline(
        name,
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": lake.schema("reading.json", SCHEMA)}},
        event_time={"column": "at", "watermark": "10 minutes", **event_time},
        transform=lake.transform("windows", WINDOWS),
        sinks=[{"delta": {"table": f"silver/{name}", "time": "window_start"}}],
        run={"trigger": "0 seconds"},
    )


def bronze(lake: Lake, topic: str, **event_time: Any) -> LakePipeline:
    return lake.pipeline(
        "bronze",
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": lake.schema("reading.json", SCHEMA)}},
        event_time={"column": "at", "watermark": "10 minutes", **event_time},
        sinks=[{"delta": {"table": "bronze/readings"}}],
    )


def send(kafka: Kafka, topic: str, *times: str, stamp: datetime | None = None) -> None:
    """Readings that happened at these times; the broker's timestamp is the producer's if it sets one."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    told = {} if stamp is None else {"timestamp": int(stamp.timestamp() * 1000)}
    for number, at in enumerate(times):
        producer.produce(topic, json.dumps({"id": number, "at": at}).encode(), **told)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def counts(lake: Lake, name: str) -> dict[str, int]:
    return {f"{row['window_start']:%H:%M}": row["count"] for row in lake.rows(f"silver/{name}")}


def rejected(lake: Lake, name: str) -> list[tuple[int, str]]:
    return sorted((row["offset"], row["reason"]) for row in lake.quarantined(name))


@pytest.mark.soak
def test_an_event_from_the_year_9999_makes_no_other_one_late_in_any_mode(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    incremental, stream, past = (windows(lake, topic, name) for name in ("incremental", "stream", "past"))
    send(kafka, topic, "2024-01-01T00:00:00Z", FAR)
    incremental.run_incremental()
    # The closing event ends all windows before it.
    send(kafka, topic, "2024-01-01T00:01:00Z", "2024-01-01T00:07:00Z", "2024-01-01T02:00:00Z")
    reporter = incremental.run_incremental()
    expected = {"00:00": 2, "00:05": 1}
    with running_stream(stream) as running:
        running.wait_until(
            lambda: bool(lake.ledger("silver/stream")) and counts(lake, "stream") == expected,
            "windows are closed",
        )
        running.drain()
    past.backfill("2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z")

    assert [counts(lake, name) for name in ("incremental", "stream", "past")] == [expected] * 3
    assert [rejected(lake, name) for name in ("incremental", "stream", "past")] == [[(1, REASON)]] * 3
    assert reporter.status.late_rows == 0
    (row,) = lake.quarantined("incremental")
    assert json.loads(row["value"]) == {"id": 1, "at": FAR}


def test_an_event_may_be_ahead_of_its_arrival_by_the_limit(kafka: Kafka, lake: Lake, topic: str) -> None:
    now = datetime.now(UTC)
    near, far = (now + timedelta(hours=hours) for hours in (0.5, 1.5))
    send(kafka, topic, near.isoformat(), far.isoformat())
    # A producer that sets the broker's timestamp cannot carry an event past the clock, nor one of the past.
    send(kafka, topic, far.isoformat(), stamp=far)
    send(kafka, topic, near.isoformat(), stamp=datetime(2024, 1, 1, tzinfo=UTC))
    bronze(lake, topic).run_incremental()
    assert [row["kafka_offset"] for row in lake.rows("bronze/readings")] == [0]
    assert rejected(lake, "bronze") == [(1, REASON), (2, REASON), (3, REASON)]


def test_a_pipeline_may_accept_every_event(kafka: Kafka, lake: Lake, topic: str) -> None:
    send(kafka, topic, FAR)
    bronze(lake, topic, max_ahead="off").run_incremental()
    assert len(lake.rows("bronze/readings")) == 1
    assert lake.quarantined("bronze") == []


def test_the_clock_of_a_repeated_batch_is_the_one_in_its_checkpoint(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    """With the wall clock, the second attempt could accept a record that the first one rejected."""
    ahead = datetime.now(UTC) + timedelta(hours=2)
    send(kafka, topic, ahead.isoformat(), stamp=ahead)
    pipeline = bronze(lake, topic)
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("files_written"))
    planned = pipeline.checkpoint / "offsets/0"
    later = rf"\g<1>{ahead.timestamp() * 1000:.0f}"
    planned.write_text(re.sub(r'("batchTimestampMs":)\d+', later, planned.read_text()))
    (planned.parent / ".0.crc").unlink()
    pipeline.run_incremental()
    assert [row["kafka_offset"] for row in lake.rows("bronze/readings")] == [0]
    assert rejected(lake, "bronze") == []
