"""Random kills of live drivers, backfills and OPTIMIZE, all at once on the same tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path
from threading import Event as Signal

import pytest

from tests.support.backfill_story import Backfills, Compaction, compacting, random_windows
from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers
from tests.support.eventually import eventually
from tests.support.iot_lake import (
    START,
    WINDOW,
    IotLake,
    assert_bronze_holds,
    closing_event,
    counts_by_window,
    send_events,
    take,
)
from tests.support.kill_story import Kills, flowing
from tests.support.lake import LakePipeline
from tidemill.backfill.bounds import Bounds
from tidemill.backfill.live_side import read_live_side
from tidemill.dev.iot_events import Event, IotSettings
from tidemill.dev.produce import Target

# Duration of the test, unless `--minutes` sets another one.
MINUTES = 30.0

# Seconds from a live driver's start to its end. Three drivers share the machine, so that a start may take
# most of it; a pipeline whose drivers are killed too early too often is given the time for a batch.
EARLIEST, LATEST = 5.0, 60.0

# Each OPTIMIZE may cost a backfill one of its attempts to commit.
SECONDS_BETWEEN_COMPACTIONS = 15.0

# Maximum time until enough windows are closed for a backfill. It is two minutes if nothing is killed.
FIRST_WINDOWS_TIMEOUT_SECONDS = 600.0

SEED = 20261122

# 25 seconds of event time in each second.
EVENTS_PER_SECOND = 100
SETTINGS = IotSettings(
    start=START,
    seed=23,
    interval=timedelta(milliseconds=250),
    devices=12,
    late_rate=0.05,
    duplicate_rate=0.05,
    broken_rate=0.02,
)


@dataclass
class RandomBackfills:
    """Backfills of random ranges, one after the other; in each round one of them is killed on its way.

    Args:
        iot: The lake.
        both: Events of either pipeline.
        chance: Decides ranges and steps.
        carried_out: Finished backfills by pipeline.
        killed_at: Kills by step.
    """

    iot: IotLake
    both: Sequence[Backfills]
    chance: random.Random
    carried_out: Counter[str] = field(default_factory=Counter)
    killed_at: Counter[str] = field(default_factory=Counter)

    def round(self) -> None:
        """Run a backfill of either pipeline."""
        unlucky = self.chance.choice(self.both)
        for backfills in self.both:
            plan = backfills.plan(self._range())
            steps = self.chance.sample(backfills.steps(), self.chance.randint(1, 2))
            steps = steps if backfills is unlucky else []
            backfills.carry_out_killed_at(plan, steps)
            self.killed_at.update(steps)
            self.carried_out[backfills.pipeline.name] += 1

    def _range(self) -> Bounds:
        """Return whole windows that the stream has closed by now."""
        until = eventually(self._closed_until, "two windows are closed", FIRST_WINDOWS_TIMEOUT_SECONDS)
        assert until is not None
        start, end = random_windows(self.chance, START, until, WINDOW)
        return Bounds(start=start, end=end)

    def _closed_until(self) -> datetime | None:
        """Return the event time up to which windows are closed; None for fewer than two windows."""
        live = read_live_side(self.iot.lake.store, self.iot.windows.resolved)
        if live is None or live.closed_until is None or live.closed_until < START + 2 * WINDOW:
            return None
        return live.closed_until


# Half an hour, the last lives and backfills, and a margin for a busy machine.
@pytest.mark.timeout(5_400)
def test_kills_backfills_and_compaction_at_once_lose_and_duplicate_nothing(
    topic: str,
    iot: IotLake,
    drivers: Drivers,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    minutes = pytestconfig.getoption("minutes") or MINUTES
    servers, pipelines = iot.lake.bootstrap_servers, (iot.bronze, iot.windows)
    kills = [Kills(drivers, each.name, random.Random(f"{SEED} {each.name}")) for each in pipelines]
    in_chunks = [Backfills(drivers, iot.bronze, "2000"), Backfills(drivers, iot.windows, "10 minutes")]
    backfills = RandomBackfills(iot, in_chunks, random.Random(SEED))
    lives = [partial(each.at_a_random_moment, EARLIEST, LATEST) for each in kills]
    with flowing(Target(servers, topic), SETTINGS, EVENTS_PER_SECOND) as flow:
        with compacting(*tables_of(iot), seconds_between=SECONDS_BETWEEN_COMPACTIONS, most=inf) as compaction:
            go_on([*lives, backfills.round], minutes * 60)
        for pipeline in pipelines:
            drain(drivers, pipeline)
        events = take(SETTINGS, flow.stop())
    send_events(servers, topic, [closing_event()])
    for pipeline in pipelines:
        last = drivers.start(pipeline.name, "incremental")
        assert last.wait(START_TIMEOUT_SECONDS) == 0, last.output[-3000:]

    with capsys.disabled():
        # Print the history of the soak test.
        print(f"\n{len(events)} events in {minutes:g} minutes")  # noqa: T201
        print(*what_happened(kills, backfills, compaction), sep="\n")  # noqa: T201
    assert all(each.phases.total() > 0 for each in kills)
    assert all(backfills.carried_out[pipeline.name] > 0 for pipeline in pipelines)
    assert backfills.killed_at.total() > 0
    assert min(compaction.commits[name] for name in ("iot_events", "iot_alerts")) > 0
    assert_all_holds(iot, events)


def what_happened(kills: Sequence[Kills], backfills: RandomBackfills, compaction: Compaction) -> list[str]:
    """Return a summary for the log, one line for each part."""
    return [
        *(
            f"{k.pipeline}: {k.drivers.committed(k.pipeline) + 1} batches, kills {dict(k.phases)}"
            for k in kills
        ),
        f"backfills: {dict(backfills.carried_out)}, killed at {dict(backfills.killed_at)}",
        f"OPTIMIZE: {dict(compaction.commits)}, lost to other writers: {compaction.lost}",
    ]


def tables_of(iot: IotLake) -> list[Path]:
    """Folders of all tables."""
    sinks = [*iot.bronze.resolved.spec.delta_sinks, *iot.windows.resolved.spec.delta_sinks]
    return [iot.lake.root / "tables" / sink.table for sink in sinks]


def go_on(acts: Sequence[Callable[[], None]], seconds: float) -> None:
    """Do each again and again, all at once, until the time is over or one fails; each at least once."""
    over = Signal()

    def again(act: Callable[[], None]) -> None:
        act()
        while not over.is_set():
            act()

    with ThreadPoolExecutor(len(acts)) as threads:
        running = [threads.submit(again, act) for act in acts]
        wait(running, seconds, FIRST_EXCEPTION)
        over.set()
    for each in running:
        each.result()


def drain(drivers: Drivers, pipeline: LakePipeline) -> None:
    """Run one more driver, which finishes its batch and ends."""
    before = drivers.committed(pipeline.name)
    driver = drivers.start(pipeline.name)
    drivers.wait_for_batch(pipeline.name, driver, before)
    assert driver.terminate() == 0, driver.output[-3000:]


def assert_all_holds(iot: IotLake, events: Sequence[Event]) -> None:
    """Check that each sent record is once in its table, and windows are as a batch computes them."""
    assert_bronze_holds(iot, [*events, closing_event()])
    assert iot.counts() == counts_by_window(events)
    hot = Counter(key_of(row) for row in iot.window_rows() if row["avg_temp"] > 100)
    assert Counter(map(key_of, iot.alert_rows())) == hot
    broken = Counter(event.value for event in events if event.kind == "broken")
    for pipeline in (iot.bronze, iot.windows):
        rejected = iot.rejected(pipeline)
        assert len({(row["partition"], row["offset"]) for row in rejected}) == len(rejected)
        assert Counter(row["value"] for row in rejected) == broken


def key_of(row: dict[str, object]) -> tuple[object, object]:
    return row["device_id"], row["window_start"]
