"""A backfill by a real driver beside a live stream and OPTIMIZE, killed at a step and repeated."""

from __future__ import annotations

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from tests.support.backfill_story import Backfills, compacting
from tests.support.driver_process import Drivers
from tests.support.eventually import eventually
from tests.support.iot_lake import (
    EVERYTHING,
    START,
    IotLake,
    accepted,
    assert_bronze_holds,
    take,
)
from tests.support.kill_story import flowing
from tidemill.backfill.bounds import parse_bounds
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Target

SETTINGS = IotSettings(
    start=START, seed=21, interval=timedelta(milliseconds=200), devices=6, late_rate=0.05, broken_rate=0.02
)


# Three drivers start, each in up to a minute on a busy machine.
@pytest.mark.timeout(1_200)
def test_a_killed_and_repeated_backfill_beside_a_stream_loses_and_duplicates_nothing(
    topic: str, iot: IotLake, drivers: Drivers
) -> None:
    """Between the quarantine's commit and the table's; every step of every pipeline is in `make soak`."""
    name, servers = iot.bronze.name, iot.lake.bootstrap_servers
    backfills = Backfills(drivers, iot.bronze)
    table = iot.lake.root / "tables/bronze/iot_events"
    with flowing(Target(servers, topic), SETTINGS, events_per_second=50) as flow:
        live = drivers.start(name)
        drivers.wait_for_batch(name, live, after=3)
        DeltaTable(str(table)).delete("kafka_partition = 0 AND kafka_offset < 50")
        with compacting(table) as compaction:
            plan = backfills.plan(parse_bounds(*EVERYTHING))
            backfills.carry_out_killed_at(plan, ["quarantine_added"])
        events = take(SETTINGS, flow.stop())
    sent = len(accepted(events))
    eventually(lambda: len(iot.bronze_rows()) >= sent, "the stream has read all", poll_seconds=1)
    assert live.terminate() == 0, live.output[-3000:]

    assert compaction.commits[table.name] > 0
    assert_bronze_holds(iot, events)
    rejected = iot.rejected(iot.bronze)
    assert len(rejected) == sum(event.kind == "broken" for event in events)
