"""Backfills over archive and hub and their live stream at once, all killed at random."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.backfill_story import Backfills, random_windows
from tests.support.captured_hub import COUNTS, START, Archiving, CapturedHub
from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers, drivers_of
from tests.support.eventually import eventually
from tests.support.kafka import CONNECTION_STRING, Kafka
from tests.support.kill_story import Kills, beside
from tests.support.lake import Lake, LakePipeline
from tidemill.backfill.bounds import Bounds, parse_bounds
from tidemill.backfill.live_side import LiveSide, read_live_side

# Backfills of either kind, unless --rounds says otherwise; each is killed once or twice.
ROUNDS = 6

# Seconds from a driver's start to its end: from before Spark is up to well into its batches or chunks.
EARLIEST, LATEST = 4.0, 30.0

# Ten events a second, one for each minute of event time. Between two partitions of a batch there is less.
EVENTS_AT_A_TIME = 10
WATERMARK = timedelta(hours=2)
WINDOW = timedelta(minutes=10)

# Maximum time until the stream has closed windows to process again. Their events come within 15 seconds.
CLOSED_TIMEOUT_SECONDS = 240.0

SEED = 20261125


@dataclass
class Flow:
    """Events that flow into a hub, and from there into its archive, in files that overlap.

    Args:
        hub: The hub.
        archiving: Archive of the hub.
        sent: Number of events that the hub accepted.
    """

    hub: CapturedHub
    archiving: Archiving
    sent: int = 0

    def run(self, over: threading.Event) -> None:
        ticks = 0
        while not over.wait(1.0):
            self.send(EVENTS_AT_A_TIME)
            ticks += 1
            if ticks % 5 == 0:
                self.archiving.capture(ticks // 5 % 2, self.sent // 2)

    def send(self, count: int) -> None:
        self.hub.send(count)
        self.sent += count


@contextmanager
def flowing(hub: CapturedHub) -> Iterator[Flow]:
    over, flow = threading.Event(), Flow(hub, Archiving(hub))
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(flow.run, over)
        try:
            yield flow
        finally:
            over.set()
        running.result()


@dataclass
class Story:
    """Backfills of one pipeline next to its stream.

    Args:
        flow: The events.
        pipeline: The pipeline.
        drivers: Drivers of its project.
        chance: Random source of ranges and moments.
        killed: Number of killed backfills.
        archived: Events that the plans read from the archive, and from the hub.
    """

    flow: Flow
    pipeline: LakePipeline
    drivers: Drivers
    chance: random.Random
    killed: int = 0
    archived: Counter[str] = field(default_factory=Counter)

    def round(self) -> None:
        """Delete rows, and restore them with a backfill that is killed and repeated."""
        live = eventually(self._ready, "windows are closed, and archived", CLOSED_TIMEOUT_SECONDS)
        assert isinstance(live, LiveSide)
        self.flow.archiving.forget(live)
        bounds, condition = self._range(live)
        backfills = Backfills(self.drivers, self.pipeline)
        plan = backfills.plan(bounds)
        assert plan.archive is not None
        assert plan.end_offsets is not None
        self.archived["archive"] += sum(each.end - each.first for each in plan.archive.slices)
        joined = plan.archive.join[self.flow.hub.hub]
        self.archived["hub"] += sum(
            max(0, end - joined[number]) for number, end in plan.end_offsets[self.flow.hub.hub].items()
        )
        table = self.pipeline.resolved.spec.delta_sinks[0].table
        DeltaTable(str(self.pipeline.lake.root / "tables" / table)).delete(condition)
        for _ in range(self.chance.randint(1, 2)):
            self.killed += backfills.try_to_kill_after(plan, self.chance.uniform(EARLIEST, LATEST))
        backfills.carry_out(plan)

    def _ready(self) -> LiveSide | None:
        live = read_live_side(self.pipeline.lake.store, self.pipeline.resolved)
        if live is None or live.batch_id is None or min(self.flow.archiving.captured[n] for n in (0, 1)) == 0:
            return None
        # Without state there is no watermark.
        closes = self.pipeline.name == "windows"
        closed = live.closed_until is not None and live.closed_until >= START + 3 * WINDOW
        return live if closed or not closes else None

    def _range(self, live: LiveSide) -> tuple[Bounds, str]:
        """Return the range to process again, and the condition for its rows that are deleted before."""
        if self.pipeline.name == "readings":
            return parse_bounds("2020-01-01", "2030-01-01"), f"id % 7 = {self.chance.randrange(7)}"
        assert live.closed_until is not None
        start, end = random_windows(self.chance, START, live.closed_until, WINDOW)
        lost = f"window_start >= '{start.isoformat()}' AND window_start < '{end.isoformat()}'"
        return Bounds(start=start, end=end), lost


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = {"TIDEMILL_SECRET_HUB_CONNECTION": CONNECTION_STRING}
    monkeypatch.setenv(*next(iter(found.items())))
    return found


@pytest.fixture
def hub(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> CapturedHub:
    return CapturedHub(Lake(tmp_path / "lake", spark), kafka)


# Each backfill takes a minute and is killed and repeated, on a machine that may be busy.
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", ["readings", "windows"])
def test_backfills_over_archive_and_hub_beside_a_stream_all_killed_at_random(
    name: str,
    hub: CapturedHub,
    secret: dict[str, str],
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every event once; windows as a batch computes them."""
    keys = {"transform": hub.lake.transform("windows", COUNTS)} if name == "windows" else {}
    event_time = {"column": "at", "watermark": "2 hours"}
    pipeline = hub.pipeline(name, event_time=event_time, run={"trigger": "1 second"}, **keys)
    with drivers_of(hub.lake.folder, secret) as drivers, flowing(hub) as flow:
        chance = random.Random(f"{SEED} {name}")
        kills, story = Kills(drivers, name, chance), Story(flow, pipeline, drivers, random.Random(SEED))
        rounds = partial(rounds_of, story, pytestconfig.getoption("rounds") or ROUNDS)
        # Long enough for batches: a backfill of windows waits for some to be closed.
        beside(kills, partial(kills.at_a_random_moment, EARLIEST, 2 * LATEST), rounds)
    with drivers_of(hub.lake.folder, secret) as drivers:
        flow.send(int(WATERMARK / timedelta(minutes=1)) + 20)
        last = drivers.start(name, "incremental")
        assert last.wait(START_TIMEOUT_SECONDS) == 0, last.output[-3000:]

    with capsys.disabled():
        # Print the history of the soak test.
        print(  # noqa: T201
            f"\n{name}: {flow.sent} events, read by backfills {dict(story.archived)}, backfills killed "
            f"{story.killed}, streams killed {dict(kills.phases)}"
        )
    assert min(story.archived["archive"], story.killed, kills.phases.total()) > 0
    if name == "readings":
        rows = [(r["kafka_partition"], r["kafka_offset"], r["id"]) for r in hub.lake.rows("silver/readings")]
        assert sorted(rows) == sorted((n % 2, n // 2, n) for n in range(flow.sent))
    else:
        found = sorted((r["window_start"], r["events"]) for r in hub.lake.rows("silver/windows"))
        assert found == closed_windows(flow.sent)


def rounds_of(story: Story, rounds: int) -> None:
    for _ in range(rounds):
        story.round()


def closed_windows(sent: int) -> list[tuple[datetime, int]]:
    """Return windows that the watermark has passed, with their events."""
    counts = Counter(START + WINDOW * (number // 10) for number in range(sent))
    until = START + timedelta(minutes=sent - 1) - WATERMARK - WINDOW
    return sorted((start, events) for start, events in counts.items() if start <= until)
