"""The gate asks a real broker: expired records, a topic made again, partitions added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from tests.support.eventually import eventually
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.dev.topics import create_topic
from tidemill.errors import GateRefusedError
from tidemill.sources.topic_facts import ask_topics

READ = [b"a", b"b", b"c"]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    return Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)


@pytest.fixture
def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def has_run(lake: Lake, topic: str) -> LakePipeline:
    """Return a pipeline that has read the topic to its end."""
    pipeline = lake.pipeline(
        "records", source={"kafka": {"topic": topic}}, sinks=[{"delta": {"table": "bronze/records"}}]
    )
    pipeline.run_incremental()
    return pipeline


def make_again(admin: AdminClient, kafka: Kafka, topic: str, partitions: int = 1) -> None:
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
    create_topic(kafka.bootstrap_servers, topic, partitions)


def refusal_of(pipeline: LakePipeline) -> GateRefusedError:
    """Return the error of the refused start, and check that the table has no new row."""
    before = values(pipeline.lake)
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert values(pipeline.lake) == before
    return refused.value


def values(lake: Lake) -> list[bytes]:
    return sorted(row["kafka_value"] for row in lake.rows("bronze/records"))


def test_the_ledger_keeps_the_ids_of_topic_and_cluster_and_the_next_start_agrees(
    kafka: Kafka, lake: Lake, admin: AdminClient
) -> None:
    topic = kafka.topic_with(READ)
    pipeline = has_run(lake, topic)
    entry = lake.ledger("bronze/records")[0].entry
    assert entry is not None
    now = ask_topics(pipeline.resolved)
    assert entry.sources["source"].topic_ids == now.ids
    assert entry.cluster == now.cluster == admin.list_topics(timeout=10).cluster_id
    assert entry.cluster
    assert (now.oldest, now.ends) == ({topic: {"0": 0}}, {topic: {"0": 3}})
    kafka.send(topic, [b"d"])
    pipeline.run_incremental()
    assert values(lake) == [b"a", b"b", b"c", b"d"]


def test_records_that_expired_unread_are_refused_and_nothing_is_skipped(
    kafka: Kafka, lake: Lake, admin: AdminClient
) -> None:
    topic = kafka.topic_with(READ)
    pipeline = has_run(lake, topic)
    kafka.send(topic, [b"lost", b"lost", b"kept"])
    expired: list[Any] = [TopicPartition(topic, 0, 5)]
    admin.delete_records(expired)[expired[0]].result()
    error = refusal_of(pipeline)
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-020", "retention-expired")
    assert error.facts["lost"] == {f"{topic}-0": "3..4"}


def test_records_that_expired_after_they_were_read_are_no_reason(
    kafka: Kafka, lake: Lake, admin: AdminClient
) -> None:
    topic = kafka.topic_with(READ)
    pipeline = has_run(lake, topic)
    expired: list[Any] = [TopicPartition(topic, 0, 3)]
    admin.delete_records(expired)[expired[0]].result()
    kafka.send(topic, [b"d"])
    pipeline.run_incremental()
    assert values(lake) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("records", [1, 10])
def test_a_topic_made_again_with_fewer_or_more_records_is_refused(
    kafka: Kafka, lake: Lake, admin: AdminClient, records: int
) -> None:
    """With more records than before, Spark would notice nothing and never read the first ones."""
    topic = kafka.topic_with(READ)
    pipeline = has_run(lake, topic)
    make_again(admin, kafka, topic)
    kafka.send(topic, [b"new"] * records)
    error = refusal_of(pipeline)
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-021", "topic-recreated")
    assert list(error.facts["topic_ids"]) == [topic]


def test_a_topic_made_again_with_fewer_partitions_is_refused(
    kafka: Kafka, lake: Lake, admin: AdminClient
) -> None:
    topic = kafka.topic_with(READ, partitions=3)
    pipeline = has_run(lake, topic)
    make_again(admin, kafka, topic, partitions=2)
    assert refusal_of(pipeline).error_id == "TIDE-CKPT-021"


def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka: Kafka, lake: Lake, admin: AdminClient
) -> None:
    topic = kafka.topic_with(READ)
    pipeline = has_run(lake, topic)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    eventually(lambda: len(ask_topics(pipeline.resolved).ends[topic]) == 2, "there are two partitions")
    kafka.send(topic, [Record(b"d", partition=1)])
    pipeline.run_incremental()
    assert values(lake) == [b"a", b"b", b"c", b"d"]
