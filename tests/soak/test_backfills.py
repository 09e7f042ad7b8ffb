"""Every cell of the rule by real drivers next to a live stream and OPTIMIZE, killed at every step."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.backfill_story import Backfills, compacting
from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers
from tests.support.eventually import eventually
from tests.support.iot_lake import (
    EVERYTHING,
    START,
    WINDOW,
    IotLake,
    accepted,
    assert_bronze_holds,
    closing_event,
    counts_by_window,
    send_events,
    take,
)
from tests.support.kill_story import flowing
from tests.support.lake import LakePipeline
from tidemill.backfill.bounds import Bounds, parse_bounds
from tidemill.backfill.live_side import read_live_side
from tidemill.dev.iot_events import Event, IotSettings
from tidemill.dev.produce import Target
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.sources.offsets import KafkaOffsets

SETTINGS = IotSettings(
    start=START,
    seed=22,
    interval=timedelta(milliseconds=500),
    devices=6,
    late_rate=0.05,
    duplicate_rate=0.05,
    broken_rate=0.02,
)

# Half an hour of events at 50 a second comes in 72 s.
CLOSED_TIMEOUT_SECONDS = 600.0

# A filter: a transform, rows that name their record, a second table, and a topic.
HOT = """
def transform(readings):
    return readings.where("temperature IS NOT NULL")
"""
# Each reading in three windows, merged by their start.
SLIDING = """
from pyspark.sql import functions as F

def transform(readings):
    once = readings.dropDuplicates(["event_id", "timestamp"])
    counts = once.groupBy(F.window("timestamp", "15 minutes", "5 minutes"), "device_id").count()
    return counts.select("device_id", F.col("window.start").alias("from"), F.col("count").alias("events"))
"""


class Story:
    """One cell: a pipeline, the range, and the rows that its tables must have.

    Args:
        iot: The lake.
        pipeline: Pipeline whose events are processed again.
        bounds: The range, once the stream has run for a while.
        check: Compares tables with the input.
    """

    def __init__(
        self,
        iot: IotLake,
        pipeline: LakePipeline,
        bounds: Callable[[], Bounds],
        check: Callable[[list[Event]], None],
    ) -> None:
        self.iot, self.pipeline, self.bounds, self.check = iot, pipeline, bounds, check

    @property
    def tables(self) -> list[Path]:
        sinks = self.pipeline.resolved.spec.delta_sinks
        return [self.iot.lake.root / "tables" / sink.table for sink in sinks]


def by_time() -> Bounds:
    return parse_bounds(*EVERYTHING)


def closed_windows(iot: IotLake, pipeline: LakePipeline) -> Bounds:
    """Return the first quarter of an hour, once the stream has closed all windows that reach into it."""
    end = START + 3 * WINDOW

    def is_closed() -> bool:
        live = read_live_side(iot.lake.store, pipeline.resolved)
        # A window reaches a quarter of an hour at most beyond the range.
        return live is not None and live.closed_until is not None and live.closed_until >= end + 3 * WINDOW

    eventually(is_closed, "the stream has closed the windows", CLOSED_TIMEOUT_SECONDS)
    return parse_bounds(START.isoformat(), end.isoformat())


def by_offsets(iot: IotLake, topic: str) -> Bounds:
    with KafkaOffsets(KafkaClient(iot.lake.bootstrap_servers)) as offsets:
        start, _ = offsets.ranges([topic])
    end = {topic: {partition: offset + 60 for partition, offset in start[topic].items()}}
    return parse_bounds(None, None, json.dumps(start), json.dumps(end))


def records(iot: IotLake, topic: str, bounds: Callable[[], Bounds]) -> Story:
    return Story(iot, iot.bronze, bounds, lambda events: assert_bronze_holds(iot, events))


def filtered(iot: IotLake, topic: str, bounds: Callable[[], Bounds]) -> Story:
    pipeline = declare(
        iot,
        topic,
        "hot",
        HOT,
        [
            {"delta": {"table": "silver/hot"}},
            {"delta": {"table": "silver/very_hot", "where": "temperature > 30"}},
            {"kafka": {"topic": f"{topic}_alerts", "where": "temperature > 100"}},
        ],
    )

    def check(events: list[Event]) -> None:
        rows = iot.lake.rows("silver/hot")
        places = {(row["kafka_partition"], row["kafka_offset"]) for row in rows}
        assert len(rows) == len(places) == len(accepted(events))
        hot = {place_of(row) for row in rows if row["temperature"] > 30}
        assert sorted(map(place_of, iot.lake.rows("silver/very_hot"))) == sorted(hot)

    return Story(iot, pipeline, bounds, check)


def place_of(row: dict[str, Any]) -> tuple[int, int]:
    return row["kafka_partition"], row["kafka_offset"]


def windows(iot: IotLake, topic: str) -> Story:
    bounds = partial(closed_windows, iot, iot.windows)
    return Story(iot, iot.windows, bounds, lambda events: same_counts(iot, events))


def same_counts(iot: IotLake, events: list[Event]) -> None:
    assert iot.counts() == counts_by_window(events)
    hot = sorted(row["window_start"] for row in iot.window_rows() if row["avg_temp"] > 100)
    assert sorted(row["window_start"] for row in iot.alert_rows()) == hot


def sliding(iot: IotLake, topic: str) -> Story:
    sinks = [{"delta": {"table": "silver/sliding", "mode": "merge", "key": ["device_id", "from"]}}]
    pipeline = declare(iot, topic, "sliding", SLIDING, sinks)

    def check(events: list[Event]) -> None:
        expected = {
            (device, start - shift * WINDOW): 0
            for device, start in counts_by_window(events)
            for shift in range(3)
        }
        for (device, start), count in counts_by_window(events).items():
            for shift in range(3):
                expected[device, start - shift * WINDOW] += count
        rows = iot.lake.rows("silver/sliding")
        # Merging writes windows before they are closed, those of the closing event too.
        last = max(start for _, start in expected)
        found = {(row["device_id"], row["from"]): row["events"] for row in rows if row["from"] <= last}
        assert len(rows) == len({(row["device_id"], row["from"]) for row in rows})
        assert found == expected

    return Story(iot, pipeline, partial(closed_windows, iot, pipeline), check)


def declare(iot: IotLake, topic: str, name: str, code: str, sinks: list[dict[str, Any]]) -> LakePipeline:
    return iot.lake.pipeline(
        name,
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": "iot_event.json"}},
        event_time={"column": "timestamp", "watermark": "10 minutes"},
        transform=iot.lake.transform(name, code),
        sinks=sinks,
        run={"trigger": "0 seconds"},
    )


CELLS: dict[str, Callable[[IotLake, str], Story]] = {
    "records by time": lambda iot, topic: records(iot, topic, by_time),
    "records by offsets": lambda iot, topic: records(iot, topic, lambda: by_offsets(iot, topic)),
    "a filter by time": lambda iot, topic: filtered(iot, topic, by_time),
    "a filter by offsets": lambda iot, topic: filtered(iot, topic, lambda: by_offsets(iot, topic)),
    "windows": windows,
    "merged windows": sliding,
}


# Up to eight drivers one after the other, next to the live one.
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("cell", CELLS)
def test_a_backfill_killed_at_every_step_beside_a_stream(
    topic: str, iot: IotLake, drivers: Drivers, cell: str
) -> None:
    story = CELLS[cell](iot, topic)
    name, servers = story.pipeline.name, iot.lake.bootstrap_servers
    backfills = Backfills(drivers, story.pipeline)
    with flowing(Target(servers, topic), SETTINGS, events_per_second=50) as flow:
        live = drivers.start(name)
        drivers.wait_for_batch(name, live, after=20)
        with compacting(*story.tables) as compaction:
            plan = backfills.plan(story.bounds())
            backfills.carry_out_killed_at(plan, backfills.steps())
        events = take(SETTINGS, flow.stop())
    assert live.is_running(), live.output[-3000:]
    assert live.terminate() == 0
    send_events(servers, topic, [closing_event()])
    last = drivers.start(name, "incremental")
    assert last.wait(START_TIMEOUT_SECONDS) == 0, last.output[-3000:]
    assert sum(compaction.commits.values()) > 0
    story.check([*events, closing_event()] if story.pipeline.name in ("iot_events_bronze", "hot") else events)
    assert len(iot.rejected(story.pipeline)) == sum(event.kind == "broken" for event in events)


@pytest.mark.timeout(3_600)
def test_a_backfill_before_the_first_start_killed_at_every_step(
    topic: str, iot: IotLake, drivers: Drivers
) -> None:
    """The pipeline cannot start until the backfill is finished, and then continues where it ended."""
    servers = iot.lake.bootstrap_servers
    events = take(SETTINGS, 2_000)
    send_events(servers, topic, events)
    backfills = Backfills(drivers, iot.bronze)
    plan = backfills.plan(by_time())
    for step in backfills.steps():
        backfills.kill_at(plan, step)
        refused = drivers.start(iot.bronze.name, "incremental")
        assert refused.wait(START_TIMEOUT_SECONDS) == 66, refused.output[-3000:]
        assert "TIDE-CKPT-029" in refused.output
    backfills.carry_out(plan)
    assert_bronze_holds(iot, events)
