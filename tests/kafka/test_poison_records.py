"""Records at which the transform itself fails: found, set aside with the error, and nothing else is lost.

The oracle is the input: each record is in the table or in the quarantine, and nowhere twice.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.engine.classify import classify
from tidemill.errors import DataError, SpecError
from tidemill.sinks.batch_commit import StepDone, nothing_more

COUNT = 200
# Poison records by number of the reading. Python fails at the first, Spark's arithmetic at the second.
POISON = {61: ("boom", 1), 142: ("fine", 0)}
ERRORS = {61: "ValueError: no name for a thing", 142: "DIVIDE_BY_ZERO: Division by zero."}
# Number of a reading that is not JSON. The decoder sends it to the quarantine, in the same batch.
BROKEN = 170

TRANSFORM = """
from pyspark.sql import functions as F

@F.udf("string")
def shout(name):
    if name == "boom":
        raise ValueError("no name for a thing")
    return name.upper()

def transform(readings):
    return readings.select("id", shout("name").alias("name"), F.expr("100 / divisor").alias("share"),
        "kafka_topic", "kafka_partition", "kafka_offset")
"""
PLAIN = """
def transform(readings):
    kept = ("kafka_topic", "kafka_partition", "kafka_offset")
    return readings.selectExpr("id", "100 / divisor AS share", *kept)
"""
CORRECTED = PLAIN.replace("100 / divisor", "try_divide(100, divisor)")


def value(number: int) -> bytes:
    name, divisor = POISON.get(number, ("fine", 2))
    return b"{" if number == BROKEN else json.dumps({"id": number, "name": name, "divisor": divisor}).encode()


def send(kafka: Kafka, topic: str, numbers: Iterable[int]) -> None:
    """Send the readings. Number n is at offset n // 2 of partition n % 2."""
    kafka.send(topic, [Record(value(number), partition=number % 2) for number in numbers])


def readings(lake: Lake, topic: str, code: str = TRANSFORM, **run: Any) -> LakePipeline:
    lake.schema(
        "reading.json",
        {"id": {"type": "integer"}, "name": {"type": "string"}, "divisor": {"type": "integer"}},
    )
    return lake.pipeline(
        "readings",
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": "reading.json"}},
        transform=lake.transform("readings", code),
        sinks=[{"delta": {"table": "silver/readings"}}],
        run={"mode": "incremental", "on_poison": "quarantine", **run},
    )


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.new_topic("readings", partitions=2)


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


def failure_of(pipeline: LakePipeline, step_done: StepDone = nothing_more) -> Exception:
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; what the driver makes of it is asserted
        pipeline.run_incremental(step_done)
    return failed.value


def recorded(lake: Lake) -> int:
    return len(list((lake.root / "state/readings/poison").glob("*/*.json")))


def set_aside(lake: Lake) -> dict[int, str]:
    """Return the reason by number of the record, and check that each is in the quarantine once."""
    rows = {2 * row["offset"] + row["partition"]: row for row in lake.quarantined("readings")}
    assert len(rows) == len(lake.quarantined("readings"))
    assert all(row["value"] == value(number) for number, row in rows.items())
    return {number: row["reason"] for number, row in rows.items()}


def ids(lake: Lake) -> Counter[int]:
    return Counter(row["id"] for row in lake.rows("silver/readings"))


def crash_when_all_are_recorded() -> StepDone:
    left = itertools.count(len(POISON) - 1, -1)

    def crash(step: str) -> None:
        if step == "poison_recorded" and next(left) == 0:
            raise CrashedError(step)

    return crash


def test_records_at_which_the_transform_fails_go_aside_once_whatever_crashes(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    send(kafka, topic, range(COUNT))
    pipeline = readings(lake, topic)

    # All poison records are recorded, and nothing of the batch is written.
    assert isinstance(failure_of(pipeline, crash_when_all_are_recorded()), CrashedError)
    assert recorded(lake) == len(POISON)
    assert set_aside(lake) == {}
    assert not (lake.root / "tables/silver/readings").exists() or lake.data_files("silver/readings") == []
    # The driver is gone between the quarantine and the table.
    assert isinstance(failure_of(pipeline, crash_at("quarantined")), CrashedError)
    assert set_aside(lake).keys() == {*POISON, BROKEN}
    assert lake.data_files("silver/readings") == []
    pipeline.run_incremental()

    assert ids(lake) == dict.fromkeys(set(range(COUNT)) - {*POISON, BROKEN}, 1)
    aside = set_aside(lake)
    assert aside.pop(BROKEN) == "malformed_json"
    assert aside.keys() == POISON.keys()
    assert all(aside[number].startswith(f"transform_failed:{ERRORS[number]}") for number in POISON)
    assert recorded(lake) == len(POISON)
    (entry,) = (commit.entry for commit in lake.ledger("silver/readings") if commit.entry)
    assert entry.poison_records == tuple(sorted(f"{topic}-{n % 2}-{n // 2}" for n in POISON))
    assert entry.quarantined_rows == len(POISON) + 1


@pytest.mark.soak
def test_poison_is_bounded_and_found_anew_by_a_backfill_which_takes_back_what_is_good(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    first, others = range(140, 144), range(142, 144)
    send(kafka, topic, first)
    poison = f"{topic}-0-1"
    pipeline = readings(lake, topic, PLAIN, max_poison_records=1)
    pipeline.run_incremental()
    rows = set(first) - {142}
    assert ids(lake) == dict.fromkeys(rows, 1)
    start, end = (json.dumps({topic: {"0": offset, "1": offset}}) for offset in (0, 2))
    pipeline.apply(pipeline.plan(start_offsets=start, end_offsets=end))
    assert ids(lake) == dict.fromkeys(rows, 1)
    assert [place(row) for row in lake.quarantined("readings")] == [poison]

    # One more than allowed stops the pipeline, which names it and leaves nothing out.
    send(kafka, topic, others)
    error = classify(failure_of(pipeline))
    assert isinstance(error, DataError)
    assert (error.error_id, error.runbook) == ("TIDE-DATA-010", "restart-budget-spent")
    assert error.facts["records"] == f"{topic}-0-2 (DIVIDE_BY_ZERO)"
    assert (error.facts["left_out_before"], error.facts["most"]) == (1, 1)
    assert [place(row) for row in lake.quarantined("readings")] == [poison]

    # New code tries these records again: the stopped batch itself, and the left-out records in a backfill.
    corrected = readings(lake, topic, CORRECTED, max_poison_records=1)
    corrected.run_incremental()
    assert ids(lake) == Counter([*rows, *others])
    corrected.apply(corrected.plan(start_offsets=start, end_offsets=end))
    assert ids(lake) == Counter([*first, *others])
    assert lake.quarantined("readings") == []


@pytest.mark.soak
def test_the_bound_of_a_backfill_counts_over_its_chunks(kafka: Kafka, lake: Lake, topic: str) -> None:
    send(kafka, topic, [140, 141, 142, 143])
    send(kafka, topic, [140, 141, 142, 143])
    pipeline = readings(lake, topic, PLAIN, max_poison_records=1)
    start, end = (json.dumps({topic: {"0": offset, "1": offset}}) for offset in (0, 4))
    plan = pipeline.plan(start_offsets=start, end_offsets=end, chunk="4")

    with pytest.raises(DataError) as refused:
        pipeline.apply(plan)

    assert refused.value.error_id == "TIDE-DATA-010"
    assert (refused.value.facts["left_out_before"], refused.value.facts["most"]) == (1, 1)
    # The first chunk is done, with its record aside; of the second nothing is.
    assert ids(lake) == Counter([140, 141, 143])
    assert [place(row) for row in lake.quarantined("readings")] == [f"{topic}-0-1"]


@pytest.mark.soak
def test_a_verification_finds_the_same_poison_and_no_difference(kafka: Kafka, lake: Lake, topic: str) -> None:
    send(kafka, topic, range(140, 144))
    pipeline = readings(lake, topic, PLAIN)
    pipeline.run_incremental()
    start, end = (json.dumps({topic: {"0": offset, "1": offset}}) for offset in (0, 2))
    found = pipeline.verify(pipeline.plan(start_offsets=start, end_offsets=end))
    assert {name: (one.rows, one.is_none) for name, one in found.items()} == {
        "silver/readings": (3, True),
        "quarantine": (1, True),
    }


def place(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}-{row['offset']}"


AWAY = """
from pyspark.sql import functions as F

@F.udf("string")
def look_up(name):
    raise ConnectionResetError("the registry of names has gone")

def transform(readings):
    return readings.select("id", look_up("name").alias("name"))
"""
COUNTED = """
from pyspark.sql import functions as F

def transform(readings):
    timed = readings.withWatermark("kafka_timestamp", "1 minute")
    return timed.groupBy(F.window("kafka_timestamp", "1 minute")).count()
"""


def test_only_records_are_to_blame_and_only_where_rows_are_made_one_by_one(
    kafka: Kafka, lake: Lake, topic: str
) -> None:
    send(kafka, topic, range(4))
    error = classify(failure_of(readings(lake, topic, AWAY)))
    assert isinstance(error, DataError)
    assert error.error_id == "TIDE-DATA-003"
    assert recorded(lake) == 0
    assert lake.quarantined("readings") == []

    refused = failure_of(readings(lake, topic, COUNTED))
    assert isinstance(refused, SpecError)
    assert refused.error_id == "TIDE-PLAN-032"
    assert refused.facts["call"] == "groupBy"
