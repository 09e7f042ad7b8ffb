"""Backfills from a real topic: repeatable, exact, and no further than the live stream has come.

No stream runs here while one is at work: for that see `test_backfill_seam.py` and `test_backfill_kills.py`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.iot_lake import (
    EVERYTHING,
    START,
    IotLake,
    accepted,
    closing_event,
    iot_topic,
    send_events,
    take,
)
from tests.support.kafka import Kafka
from tests.support.lake import Lake
from tidemill.dev.iot_events import Event, IotSettings
from tidemill.errors import UsageError

# One event a second for 20 minutes.
SETTINGS = IotSettings(
    start=START,
    seed=8,
    interval=timedelta(seconds=1),
    devices=6,
    late_rate=0.1,
    duplicate_rate=0.05,
    broken_rate=0.02,
)
EVENTS = take(SETTINGS, 1_200)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return iot_topic(kafka, partitions=2)


@pytest.fixture
def iot(tmp_path: Path, spark: SparkSession, kafka: Kafka, topic: str) -> IotLake:
    return IotLake(tmp_path / "lake", spark, kafka.bootstrap_servers, topic)


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def send(kafka: Kafka, topic: str, events: list[Event]) -> None:
    send_events(kafka.bootstrap_servers, topic, events)


def delete(lake: Lake, table: str, condition: str) -> None:
    """Delete rows by hand, as a user who repairs a table would."""
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/{table}` WHERE {condition}")


@pytest.mark.soak
def test_ranges_that_adjoin_leave_no_record_out_and_the_same_range_again_changes_no_row(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, EVENTS)
    begin, end = EVERYTHING
    for start, stop in [(begin, at(8)), (at(8), end)]:
        iot.bronze.backfill(start, stop)
    rows, rejected = iot.bronze_rows(), iot.rejected(iot.bronze)
    assert len(rows) == len(accepted(EVENTS))
    assert len(rejected) == len(EVENTS) - len(rows) > 10

    iot.bronze.backfill(*EVERYTHING)

    assert iot.bronze_rows() == rows
    assert iot.rejected(iot.bronze) == rejected


def test_a_backfill_of_windows_restores_what_was_deleted_and_sends_no_alert_again(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, [*EVENTS, closing_event()])
    iot.windows.run_incremental()
    rows, alerts, rejected = iot.window_rows(), iot.alert_rows(), iot.rejected(iot.windows)
    sent = kafka.read(f"{topic}_alerts")
    assert len(sent) == len(alerts) > 0
    for table in ("silver/iot_device_windows", "silver/iot_alerts"):
        delete(iot.lake, table, f"window_start >= '{at(5)}' AND window_start < '{at(15)}'")
    assert len(iot.window_rows()) < len(rows)

    iot.windows.backfill(at(5), at(15))

    assert iot.window_rows() == rows
    assert iot.alert_rows() == alerts
    assert iot.rejected(iot.windows) == rejected
    assert kafka.read(f"{topic}_alerts") == sent


@pytest.mark.soak
def test_a_backfill_of_time_restores_exactly_the_deleted_rows(kafka: Kafka, topic: str, iot: IotLake) -> None:
    send(kafka, topic, EVENTS)
    iot.bronze.run_incremental()
    rows = iot.bronze_rows()
    delete(iot.lake, "bronze/iot_events", f"timestamp >= '{at(3)}' AND timestamp < '{at(7)}'")
    assert 100 < len(rows) - len(iot.bronze_rows()) < 400

    iot.bronze.backfill(at(3), at(7))

    assert iot.bronze_rows() == rows


@pytest.mark.soak
def test_a_backfill_of_offsets_restores_exactly_the_deleted_rows(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, EVENTS)
    iot.bronze.run_incremental()
    rows, rejected = iot.bronze_rows(), iot.rejected(iot.bronze)
    delete(iot.lake, "bronze/iot_events", "kafka_partition = 1 AND kafka_offset BETWEEN 40 AND 79")
    deleted = len(rows) - len(iot.bronze_rows())
    assert 0 < deleted <= 40
    plan = iot.bronze.plan(
        start_offsets=json.dumps({topic: {"0": 10, "1": 40}}),
        end_offsets=json.dumps({topic: {"0": 20, "1": 80}}),
    )
    before = iot.bronze.verify(plan)["bronze/iot_events"]
    assert (before.missing, before.surplus) == (deleted, 0)
    assert all(40 <= json.loads(row)["kafka_offset"] < 80 for row in before.missing_rows)

    iot.bronze.apply(plan)

    assert iot.bronze_rows() == rows
    assert iot.rejected(iot.bronze) == rejected
    assert all(found.is_none for found in iot.bronze.verify(plan).values())


@pytest.mark.soak
def test_verifying_names_what_is_missing_or_stands_twice_in_each_table_of_a_range(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, [*EVENTS, closing_event()])
    iot.windows.run_incremental()
    plan = iot.windows.plan(at(5), at(15))
    found = iot.windows.verify(plan)
    tables = {"silver/iot_device_windows", "silver/iot_alerts", "quarantine"}
    assert found.keys() == tables
    assert all(difference.is_none and difference.rows > 0 for difference in found.values())

    changed = f"{iot.lake.root}/tables/silver/iot_device_windows"
    one = f"SELECT * FROM delta.`{changed}` WHERE window_start = '{at(5)}' LIMIT 1"
    iot.lake.spark.sql(f"INSERT INTO delta.`{changed}` {one}")
    delete(iot.lake, "silver/iot_alerts", f"window_start >= '{at(5)}' AND window_start < '{at(15)}'")
    DeltaTable(f"{iot.lake.root}/quarantine/iot_device_windows").delete("offset < 20")

    differs = {name: (d.missing, d.surplus) for name, d in iot.windows.verify(plan).items()}
    assert differs["silver/iot_device_windows"] == (0, 1)
    assert differs["silver/iot_alerts"] == (found["silver/iot_alerts"].rows, 0)
    assert differs["quarantine"][0] > 0 == differs["quarantine"][1]
    beside = iot.windows.verify(iot.windows.plan(at(15), at(20)))
    assert beside["silver/iot_device_windows"].is_none
    assert beside["silver/iot_alerts"].is_none


def test_a_backfill_reads_only_what_the_live_stream_has_committed(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, EVENTS[:600])
    iot.bronze.run_incremental()
    rows = iot.bronze_rows()
    send(kafka, topic, EVENTS[600:])

    plan = iot.bronze.plan(*EVERYTHING)
    iot.bronze.apply(plan)

    assert plan.at_seam
    assert plan.end_offsets == iot.lake.ledger("bronze/iot_events")[-1].entry.sources["source"].end
    assert plan.records == 600
    assert iot.bronze_rows() == rows
    iot.bronze.run_incremental()
    assert len(iot.bronze_rows()) == len(accepted(EVENTS))


@pytest.mark.soak
def test_rows_that_the_live_stream_adds_after_the_plan_stay(kafka: Kafka, topic: str, iot: IotLake) -> None:
    send(kafka, topic, EVENTS[:600])
    iot.bronze.run_incremental()
    plan = iot.bronze.plan(*EVERYTHING)
    send(kafka, topic, EVENTS[600:])
    iot.bronze.run_incremental()
    rows = iot.bronze_rows()

    iot.bronze.apply(plan)

    assert iot.bronze_rows() == rows
    assert len(rows) == len(accepted(EVENTS))


def test_rows_whose_records_the_broker_no_longer_has_stay(kafka: Kafka, topic: str, iot: IotLake) -> None:
    send(kafka, topic, EVENTS)
    iot.bronze.run_incremental()
    rows, rejected = iot.bronze_rows(), iot.rejected(iot.bronze)
    expire(kafka, topic, {0: 100, 1: 100})

    iot.bronze.backfill(*EVERYTHING)

    assert iot.bronze_rows() == rows
    assert iot.rejected(iot.bronze) == rejected


def test_a_range_that_the_live_stream_has_not_closed_is_refused(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    send(kafka, topic, EVENTS)
    iot.windows.run_incremental()

    # The newest event is from minute 20, so windows up to minute 10 are closed; the tenth one is just not.
    refusal = refused(iot, at(0), at(15))

    assert refusal.error_id == "TIDE-BACK-006"
    assert refusal.facts["closed_until"] == (START + timedelta(minutes=9, seconds=59)).isoformat()
    assert iot.windows.plan(at(0), at(5)).at_seam


def test_a_range_that_cuts_through_windows_is_refused_with_the_near_one(iot: IotLake) -> None:
    refusal = refused(iot, at(1), at(9))
    assert refusal.error_id == "TIDE-BACK-005"
    assert refusal.facts["near_range"] == f"{at(0)} to {at(10)}"


def refused(iot: IotLake, start: str, end: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        iot.windows.plan(start, end)
    return error.value


def expire(kafka: Kafka, topic: str, before: dict[int, int]) -> None:
    """Let the broker forget records, as retention does."""
    positions: list[Any] = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    # Keep a reference to the client, because it answers only while it exists.
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records(positions).values():
        deleted.result()
