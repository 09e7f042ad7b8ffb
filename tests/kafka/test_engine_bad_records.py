"""Unreadable records are kept unchanged, are reported with their offset, and do not block other records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.engine.classify import classify
from tidemill.errors import DataError

# Bytes. The second is a record that most topics would refuse; the limit is the pipeline's own.
LIMIT = 2_000
TEN_MEGABYTES = 10_000_000

READINGS = {
    "id": {"type": "integer"},
    "temperature": {"type": "number"},
    "at": {"type": "string", "format": "date-time"},
}
REQUIRED = ["id", "temperature"]


def reading(number: int, padding: int = 0) -> bytes:
    return json.dumps({"id": number, "temperature": 20.5, "note": "x" * padding}).encode()


BAD = {
    "malformed_json": b'{"id": 7, "temperature": 2',
    "wrong_type:temperature": b'{"id": 7, "temperature": "warm"}',
    "missing_required:temperature": b'{"id": 7}',
    # Spark sorts it above all numbers: an alert of every condition like `temperature > 100`.
    "not_finite:temperature": b'{"id": 7, "temperature": NaN}',
    "no_offset:at": b'{"id": 7, "temperature": 1, "at": "2026-01-01T00:00:00"}',
    "null_value": None,
    "empty": b"",
    "invalid_utf8": b'{"id": 7, "temperature": 1, "note": "\xff\xfe"}',
    "not_an_object": b"[1, 2]",
    "oversized": reading(7, TEN_MEGABYTES),
}


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.new_topic("readings", partitions=2, config={"max.message.bytes": "11000000"})


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


def readings(lake: Lake, topic: str, transform: str | None = None, **payload: Any) -> LakePipeline:
    schema = lake.schema("reading.json", READINGS, REQUIRED)
    return lake.pipeline(
        "readings",
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": schema, "max_record_bytes": LIMIT, **payload}},
        **({} if transform is None else {"transform": transform}),
        sinks=[{"delta": {"table": "bronze/readings"}}],
    )


def ids(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.rows("bronze/readings"))


def test_records_that_cannot_be_read_are_kept_as_they_were_sent_and_the_stream_goes_on(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    pipeline = readings(lake, topic)
    kafka.send(topic, [Record(reading(0), partition=0), Record(reading(1), partition=1)])
    kafka.send(topic, [Record(value, b"key", partition=1) for value in BAD.values()])
    kafka.send(topic, [Record(reading(2), partition=0), Record(reading(3), partition=1)])

    reporter = pipeline.run_incremental()

    assert ids(lake) == [0, 1, 2, 3]
    rejected = sorted(lake.quarantined("readings"), key=lambda row: row["offset"])
    told = [(row["topic"], row["partition"], row["offset"], row["reason"]) for row in rejected]
    assert told == [(topic, 1, offset, reason) for offset, reason in enumerate(BAD, start=1)]
    assert [row["value"] for row in rejected] == list(BAD.values())
    assert {row["key"] for row in rejected} == {b"key"}
    assert reporter.status.quarantined_rows == len(BAD)

    kafka.send(topic, [Record(b"{", partition=0), Record(reading(4), partition=0)])
    pipeline.run_incremental()
    assert ids(lake) == [0, 1, 2, 3, 4]
    assert len(lake.quarantined("readings")) == len(BAD) + 1


MARK = "c4n4ry-in-a-payload"
# Spark's own error has the text that is no number.
UNION = """
def transform(readings):
    return readings.where("id >= 0").union(readings.where("id < 0")){then}
"""


@pytest.mark.parametrize("then", ["", ".coalesce(1)"], ids=["in many tasks", "in one task"])
def test_a_record_that_two_uses_of_the_source_reject_is_in_quarantine_once(
    kafka: Kafka, lake: Lake, topic: str, then: str
) -> None:
    kafka.send(topic, [Record(reading(n), partition=n % 2) for n in range(4)])
    kafka.send(topic, [Record(value, partition=n % 2) for n, value in enumerate(BAD.values())])
    pipeline = readings(lake, topic, transform=lake.transform("twice", UNION.format(then=then)))
    reporter = pipeline.run_incremental()
    assert ids(lake) == [0, 1, 2, 3]
    places = [(row["partition"], row["offset"]) for row in lake.quarantined("readings")]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(2, 7)]
    assert reporter.status.quarantined_rows == len(BAD)


def test_a_batch_that_the_same_run_repeats_leaves_the_committed_records_alone(
    kafka: Kafka, lake: Lake, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.engine.in_session.new_run_id", lambda: "one-run")
    pipeline = readings(lake, topic)
    kafka.send(topic, [reading(0), *BAD.values()])
    pipeline.run_incremental()
    before = committed_files(lake)
    # Spark did not get so far as to take note of the batch, so the driver tries it again.
    for name in ("0", ".0.crc"):
        (pipeline.checkpoint / "commits" / name).unlink()

    pipeline.run_incremental()

    assert committed_files(lake) == before
    assert len(lake.quarantined("readings")) == len(BAD)
    assert ids(lake) == [0]


def committed_files(lake: Lake) -> dict[str, bytes]:
    """Return content of each data file that the quarantine table's log names."""
    files = DeltaTable(str(lake.root / "quarantine/readings")).file_uris()
    return {file: Path(file).read_bytes() for file in files}


def test_a_record_as_long_as_the_limit_is_read_and_one_byte_more_is_not(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    pipeline = readings(lake, topic)
    padding = LIMIT - len(reading(0))
    kafka.send(topic, [reading(0, padding), reading(1, padding + 1)])

    pipeline.run_incremental()

    assert ids(lake) == [0]
    assert [row["reason"] for row in lake.quarantined("readings")] == ["oversized"]


def test_a_pipeline_that_shall_fail_says_where_the_record_lies(kafka: Kafka, lake: Lake, topic: str) -> None:
    pipeline = readings(lake, topic, on_invalid="fail")
    kafka.send(topic, [Record(reading(number), partition=1) for number in range(3)])
    kafka.send(topic, [Record(b'{"id": "secret text"}', partition=1)])

    with pytest.raises(Exception) as failed:  # noqa: PT011  # what the driver makes of it is asserted
        pipeline.run_incremental()

    error = classify(failed.value)
    assert isinstance(error, DataError)
    assert error.error_id == "TIDE-DATA-001"
    assert (error.facts["topic"], error.facts["partition"], error.facts["offset"]) == (topic, "1", "3")
    assert error.facts["reason"] == "wrong_type:id"
    assert "secret text" not in str(error)
    assert lake.rows("bronze/readings") == []
