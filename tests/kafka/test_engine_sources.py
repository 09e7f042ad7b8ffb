"""Tests of the Kafka source: topics by name and pattern, partitions, start offsets, headers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.engine.availability import check_source
from tidemill.errors import UnavailableError
from tidemill.sources.read import Past, read_batch

Position = tuple[str, int, int]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    return Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)


def records(lake: Lake, **source: Any) -> LakePipeline:
    """Return a pipeline that keeps records as they are."""
    return lake.pipeline("records", source={"kafka": source}, sinks=[{"delta": {"table": "bronze/records"}}])


def positions(lake: Lake) -> list[Position]:
    rows = lake.rows("bronze/records")
    return sorted((row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) for row in rows)


def two_topics(kafka: Kafka) -> tuple[str, str]:
    """Return two topics with two records in each of two partitions."""
    one, two = (kafka.new_topic(name, partitions=2) for name in ("plant_north", "plant_south"))
    for topic in (one, two):
        kafka.send(topic, [Record(b"value", b"key", partition) for partition in (0, 0, 1, 1)])
    return one, two


def all_of(*topics: str) -> list[Position]:
    return sorted((topic, partition, offset) for topic in topics for partition in (0, 1) for offset in (0, 1))


def test_several_topics_are_read_by_name(kafka: Kafka, lake: Lake) -> None:
    one, two = two_topics(kafka)
    records(lake, topics=[one, two]).run_incremental()
    assert positions(lake) == all_of(one, two)


def test_a_pattern_that_matches_no_topic_waits_for_one(kafka: Kafka, lake: Lake) -> None:
    pipeline = records(lake, pattern="nowhere_.*").resolved
    with pytest.raises(UnavailableError) as waiting:
        check_source(pipeline)
    assert (waiting.value.error_id, waiting.value.facts["pattern"]) == ("TIDE-SRC-002", "nowhere_.*")
    kafka.new_topic("nowhere")
    check_source(pipeline)


def test_a_pattern_takes_in_a_topic_that_is_made_later(kafka: Kafka, lake: Lake) -> None:
    one, two = two_topics(kafka)
    pattern = f"({one}|{two}|plant_later_.*)"
    pipeline = records(lake, pattern=pattern)
    pipeline.run_incremental()
    assert positions(lake) == all_of(one, two)

    later = kafka.new_topic("plant_later", partitions=1)
    kafka.send(later, [b"value"])
    pipeline.run_incremental()

    assert positions(lake) == sorted([*all_of(one, two), (later, 0, 0)])


def test_only_assigned_partitions_are_read(kafka: Kafka, lake: Lake) -> None:
    one, two = two_topics(kafka)
    records(lake, assign={one: [1], two: [0]}).run_incremental()
    assert positions(lake) == [(one, 1, 0), (one, 1, 1), (two, 0, 0), (two, 0, 1)]


def test_each_partition_starts_where_the_pipeline_says(kafka: Kafka, lake: Lake) -> None:
    topic, _ = two_topics(kafka)
    pipeline = records(lake, topic=topic, starting_offsets={topic: {"0": 1, "1": -1}})
    pipeline.run_incremental()
    kafka.send(topic, [Record(b"new", partition=1)])
    pipeline.run_incremental()
    assert positions(lake) == [(topic, 0, 1), (topic, 1, 2)]


def test_a_partition_that_is_added_later_is_read_from_its_beginning(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.topic_with([b"first"])
    pipeline = records(lake, topic=topic)
    pipeline.run_incremental()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    kafka.send(topic, [Record(b"second", partition=1)])

    pipeline.run_incremental()

    assert positions(lake) == [(topic, 0, 0), (topic, 1, 0)]
    # Records that were read can be read again, by a backfill planned earlier or a search for poison.
    before = read_batch(lake.spark, pipeline.resolved, Past({topic: {"0": 0}}, {topic: {"0": 1}}))
    assert [row["kafka_value"] for row in before.collect()] == [b"first"]


def test_headers_are_kept_in_order(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.new_topic()
    headers: list[Any] = [
        *(("trace", b"1"), ("trace", b"2"), ("empty", None)),
        # These are IoT Hub's names of its system properties.
        *(("iothub-connection-device-id", b"d1"), ("iothub-enqueuedtime", b"\x00\xff")),
    ]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"value", headers=headers)
    assert producer.flush(20) == 0

    records(lake, topic=topic, headers=True).run_incremental()

    (row,) = lake.rows("bronze/records")
    assert [(header["key"], header["value"]) for header in row["kafka_headers"]] == headers


def test_a_record_keeps_its_key_value_place_and_time(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition, key in ((0, b"\x00key"), (1, None)):
        producer.produce(topic, b"\xff\x00", key=key, partition=partition, timestamp=1_767_225_600_123)
    assert producer.flush(20) == 0

    records(lake, topic=topic).run_incremental()

    at = datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)
    rows = sorted(lake.rows("bronze/records"), key=lambda row: row["kafka_partition"])
    assert rows == [
        {
            "kafka_key": key,
            "kafka_value": b"\xff\x00",
            "kafka_topic": topic,
            "kafka_partition": partition,
            "kafka_offset": 0,
            "kafka_timestamp": at,
        }
        for partition, key in ((0, b"\x00key"), (1, None))
    ]
