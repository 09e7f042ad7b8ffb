"""Several topics as streams of one pipeline: each with its own offsets, ids and beginning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.dev.topics import create_topic
from tidemill.errors import GateRefusedError
from tidemill.sources.topic_facts import ask_topics

BOTH = """
def transform(orders, payments):
    columns = ["kafka_topic", "kafka_partition", "kafka_offset"]
    return orders.select(*columns).unionByName(payments.select(*columns))
"""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    return Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)


@pytest.fixture
def tidemill(lake: Lake, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(lake.folder, capsys.readouterr)


def declare(lake: Lake, topics: Mapping[str, str]) -> LakePipeline:
    lake.schema("number.json", {"n": {"type": "integer"}})
    return lake.pipeline(
        "all",
        sources={
            name: {"kafka": {"topic": topic}, "payload": {"json": {"schema": "number.json"}}}
            for name, topic in topics.items()
        },
        transform=lake.transform("all", BOTH),
        sinks=[{"delta": {"table": "bronze/all"}}, {"delta": {"table": "silver/all"}}],
    )


def places(lake: Lake, table: str = "bronze/all") -> list[tuple[str, int]]:
    return sorted((row["kafka_topic"], row["kafka_offset"]) for row in lake.rows(table))


def test_each_topic_has_its_own_place_ids_and_beginning(
    lake: Lake, kafka: Kafka, tidemill: CommandLine
) -> None:
    good, broken = b'{"n": 1}', b"{"
    orders, payments = kafka.topic_with([good, broken, good]), kafka.topic_with([good, good])
    pipeline = declare(lake, {"orders": orders, "payments": payments})
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    kafka.send(payments, [Record(good)])
    # The half-written batch with its own offsets, then the new record.
    pipeline.run_incremental()
    expected = sorted([(orders, 0), (orders, 2), (payments, 0), (payments, 1), (payments, 2)])
    assert places(lake) == places(lake, "silver/all") == expected
    assert [(row["topic"], row["offset"]) for row in lake.quarantined("all")] == [(orders, 1)]
    [newest, *_] = lake.ledger("bronze/all")
    assert newest.entry is not None
    streams = pipeline.resolved.streams
    for name, topic, end in (("orders", orders, 3), ("payments", payments, 3)):
        read = newest.entry.sources[name]
        assert (read.end, read.topic_ids) == ({topic: {"0": end}}, dict(ask_topics(streams[name]).ids))
    remade(kafka, payments)
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    error = refused.value
    assert (error.error_id, error.facts["stream"]) == ("TIDE-CKPT-021", "payments")
    assert tidemill("checkpoint", "gate", "all") != 0
    assert "payments" in tidemill.out
    kafka.send(payments, [Record(good), Record(good)])
    reset(tidemill, {orders: {"0": 2}, payments: {"0": 1}})
    pipeline.run_incremental()
    assert places(lake) == sorted([*expected, (orders, 2), (payments, 1)])


def remade(kafka: Kafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
    create_topic(kafka.bootstrap_servers, topic, 1)


def reset(tidemill: CommandLine, start: Mapping[str, Any]) -> None:
    arguments = ("checkpoint", "reset", "all", "--reason", "test", "--apply", "--skip-unread", "--from")
    assert tidemill(*arguments, json.dumps({next(iter(start)): {"0": 0}})) != 0
    assert "has none" in tidemill.err
    assert tidemill(*arguments, json.dumps(start)) == 0, tidemill.err
