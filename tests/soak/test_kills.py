"""Kills at random moments while events flow: nothing lost, nothing duplicated."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers
from tests.support.iot_lake import (
    START,
    IotLake,
    assert_bronze_holds,
    closing_event,
    counts_by_window,
    send_events,
    take,
)
from tests.support.kill_story import Kills, flowing
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Target

# Number of kills of each driver, unless `--rounds` sets another one.
KILLS = 50

BRONZE, WINDOWS = "iot_events_bronze", "iot_device_windows"

# Seconds from a driver's start to its end: from before Spark is up to well into its batches. A driver that is
# killed before its first batch ends makes no progress, so a few in a row are followed by one that may.
EARLIEST, LATEST = 3.0, 25.0
SEED = 20261121

SETTINGS = IotSettings(
    start=START,
    seed=20,
    interval=timedelta(milliseconds=200),
    devices=12,
    late_rate=0.05,
    duplicate_rate=0.05,
    broken_rate=0.02,
)


# Twenty lives of up to 25 s, some of them longer, and a margin for a busy machine.
@pytest.mark.timeout(3_600)
def test_kills_of_both_drivers_lose_and_duplicate_nothing(
    topic: str,
    iot: IotLake,
    drivers: Drivers,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = pytestconfig.getoption("rounds") or KILLS
    servers = iot.lake.bootstrap_servers
    both = [Kills(drivers, name, random.Random(f"{SEED} {name}")) for name in (BRONZE, WINDOWS)]
    with flowing(Target(servers, topic), SETTINGS, events_per_second=100) as flow:
        # Run both at once, each on a separate core.
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda kills: kill_many_times(kills, rounds), both))
        events = take(SETTINGS, flow.stop())
    send_events(servers, topic, [closing_event()])
    last = [drivers.start(kills.pipeline, "incremental") for kills in both]
    assert [driver.wait(START_TIMEOUT_SECONDS) for driver in last] == [0, 0]

    assert [sum(kills.phases.values()) for kills in both] == [rounds, rounds]
    with capsys.disabled():
        for kills in both:
            batches = drivers.committed(kills.pipeline) + 1
            # Print the history of the soak test.
            print(f"\n{kills.pipeline}: {len(events)} events, {batches} batches, kills {dict(kills.phases)}")  # noqa: T201
    assert_bronze_holds(iot, [*events, closing_event()])
    assert iot.counts() == counts_by_window(events)


def kill_many_times(kills: Kills, rounds: int) -> None:
    for _ in range(rounds):
        kills.at_a_random_moment(EARLIEST, LATEST)
