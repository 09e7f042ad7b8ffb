"""A real driver's backfill is killed and repeated while a live stream and OPTIMIZE run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.backfill_story import Backfills, compacting
from tests.support.driver_process import Drivers
from tests.support.iot_lake import (
    EVERYTHING,
    START,
    IotLake,
    accepted,
    assert_bronze_holds,
    take,
)
from tests.support.kafka import Kafka
from tests.support.kill_story import flowing
from tests.support.running_stream import running_stream
from tidemill.backfill.bounds import parse_bounds
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Target

SETTINGS = IotSettings(
    start=START, seed=21, interval=timedelta(milliseconds=200), devices=6, late_rate=0.05, broken_rate=0.02
)


@pytest.fixture
def iot(tmp_path: Path, spark: SparkSession, kafka: Kafka, topic: str) -> IotLake:
    return IotLake(tmp_path / "lake", spark, kafka.bootstrap_servers, topic)


@pytest.mark.soak
def test_a_killed_and_repeated_backfill_beside_a_stream_loses_and_duplicates_nothing(
    topic: str, iot: IotLake, drivers: Drivers
) -> None:
    """Between the quarantine's commit and the table's, of the first chunk.

    The stream and the repetition are the test session's; real ones, and every step of every pipeline, are in
    `make soak`.
    """
    table = iot.lake.root / "tables/bronze/iot_events"
    flow = flowing(Target(iot.lake.bootstrap_servers, topic), SETTINGS, events_per_second=50)
    with flow as events_sent, running_stream(iot.bronze) as live:
        live.wait_until(lambda: len(iot.lake.data_files("bronze/iot_events")) > 3, "the stream writes")
        DeltaTable(str(table)).delete("kafka_partition = 0 AND kafka_offset < 50")
        with compacting(table) as compaction:
            backfills = Backfills(drivers, iot.bronze, chunk="1000")
            plan = backfills.plan(parse_bounds(*EVERYTHING))
            backfills.kill_at(plan, "quarantine_added")
            iot.bronze.apply(plan)
        events = take(SETTINGS, events_sent.stop())
        sent = len(accepted(events))
        live.wait_until(lambda: rows_in(table) >= sent, "the stream has read all")
        live.drain()

    assert compaction.commits[table.name] > 0
    assert_bronze_holds(iot, events)
    rejected = iot.rejected(iot.bronze)
    assert len(rejected) == sum(event.kind == "broken" for event in events)


def rows_in(table: Path) -> int:
    """Return the number of rows from the table's log; the test polls it while the stream runs."""
    return sum(DeltaTable(str(table)).get_add_actions(flatten=True).column("num_records").to_pylist())
