"""Reset: Spark begins exactly where the plan says, and gap and overlap are as announced."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.command_line import CommandLine
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    return Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)


@pytest.fixture
def tidemill(lake: Lake, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(lake.folder, capsys.readouterr)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Return two partitions with three records each."""
    topic = kafka.new_topic(partitions=2)
    send(kafka, topic, 3)
    return topic


@pytest.fixture
def records(lake: Lake, topic: str) -> LakePipeline:
    pipeline = lake.pipeline(
        "records", source={"kafka": {"topic": topic}}, sinks=[{"delta": {"table": "bronze/records"}}]
    )
    pipeline.run_incremental()
    return pipeline


def send(kafka: Kafka, topic: str, count: int) -> None:
    kafka.send(topic, [Record(b"value", None, partition) for partition in (0, 1) for _ in range(count)])


def positions(lake: Lake) -> list[tuple[int, int]]:
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in lake.rows("bronze/records"))


def both(offsets: Iterable[int]) -> list[tuple[int, int]]:
    return sorted((partition, offset) for offset in offsets for partition in (0, 1))


def reset(tidemill: CommandLine, start: str, *agreed: str) -> dict[str, Any]:
    document: dict[str, Any] = tidemill.json(
        "checkpoint", "reset", "records", "--from", start, *agreed, "--reason", "test", "--apply"
    )
    plan: dict[str, Any] = document["plan"]
    return plan


def test_named_offsets_are_where_the_next_batch_begins(
    kafka: Kafka, topic: str, lake: Lake, tidemill: CommandLine, records: LakePipeline
) -> None:
    send(kafka, topic, 4)
    plan = reset(tidemill, json.dumps({topic: {"0": 5, "1": 2}}), "--skip-unread")
    assert (plan["never_read"], plan["read_again"]) == (2, 1)
    records.run_incremental()
    gone_and_repeated = [*both(range(3)), (0, 5), (0, 6), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6)]
    assert positions(lake) == sorted(gone_and_repeated)
    [newest, *_] = lake.ledger("bronze/records")
    assert newest.entry is not None
    assert (newest.entry.generation, newest.entry.batch_id) == ("g0002", 0)
    assert newest.entry.sources["source"].start == {topic: {"0": 5, "1": 2}}


def test_latest_skips_what_has_not_been_read_only_if_somebody_says_so(
    kafka: Kafka, topic: str, lake: Lake, tidemill: CommandLine, records: LakePipeline
) -> None:
    send(kafka, topic, 2)
    assert tidemill("checkpoint", "reset", "records", "--from", "latest", "--reason", "test", "--apply") == 2
    assert tidemill.err.startswith("TIDE-CKPT-104")
    assert reset(tidemill, "latest", "--skip-unread")["never_read"] == 4
    send(kafka, topic, 1)
    records.run_incremental()
    assert positions(lake) == both([0, 1, 2, 5])


def test_earliest_reads_everything_again(
    kafka: Kafka, topic: str, lake: Lake, tidemill: CommandLine, records: LakePipeline
) -> None:
    assert reset(tidemill, "earliest")["read_again"] == 6
    records.run_incremental()
    assert positions(lake) == both([0, 0, 1, 1, 2, 2])


def test_a_moment_is_found_by_the_records_times(
    kafka: Kafka, topic: str, lake: Lake, tidemill: CommandLine, records: LakePipeline
) -> None:
    assert reset(tidemill, "2020-01-01T00:00:00Z")["read_again"] == 6
    assert reset(tidemill, "2100-01-01T00:00:00Z")["never_read"] == 0
    records.run_incremental()
    assert positions(lake) == both(range(3))


def test_the_ends_of_single_partitions_may_be_named_by_number(
    topic: str, tidemill: CommandLine, records: LakePipeline
) -> None:
    plan = reset(tidemill, json.dumps({topic: {"0": -2, "1": -1}}))
    assert plan["start"] == {topic: {"0": 0, "1": 3}}
    assert (plan["never_read"], plan["read_again"]) == (0, 3)


def test_after_a_reset_the_stream_goes_on_and_starts_again(
    kafka: Kafka, topic: str, lake: Lake, tidemill: CommandLine, records: LakePipeline
) -> None:
    reset(tidemill, json.dumps({topic: {"0": 3, "1": 3}}))
    for _ in range(2):
        send(kafka, topic, 1)
        records.run_incremental()
    assert positions(lake) == both(range(5))
