"""Backfills of random ranges and their stream, all killed at random, give the tables of a run without faults.

The seed determines the events, the deleted rows, the range, the chunks, how rows are published, and the
kills. To repeat one: `pytest tests/soak/test_backfill_seeds.py -k seed07`.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.backfill_story import FIRST_STEPS, LAST_STEP, Backfills, compacting, random_windows
from tests.support.command_line import CommandLine
from tests.support.control_run import RECORDS, RIGHT, WINDOWS, WRONG, assert_like_control
from tests.support.driver_process import Drivers, drivers_of
from tests.support.event_inputs import INPUTS, EventInput, Feed, feeding, new_input
from tests.support.eventually import eventually
from tests.support.iot_lake import CLOSING_TIME, START, WINDOW, closing_event
from tests.support.kafka import CONNECTION_STRING, Kafka
from tests.support.kill_story import Kills, beside
from tests.support.lake import LakePipeline
from tidemill.backfill.live_side import LiveSide, read_live_side
from tidemill.backfill.plan import BackfillPlan, Publish
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.dev.iot_events import IotSettings

# Stories, unless --rounds says otherwise. Inputs take turns.
SEEDS = 51

# Range of the time until a kill, as a share of the time from the first driver's start to its first batch. It
# begins before Spark has started, and ends well after the first batches or chunks.
EARLIEST, LATEST = 0.3, 2.5

# Maximum time until the stream has closed windows to process again. Their events come within seconds.
READY_TIMEOUT_SECONDS = 600.0

# A stream waits up to five minutes for a backfill that has its turn, and the machine may do something else.
PATIENT_SECONDS = 900.0

# No event is older, whatever it is too late by.
BEFORE_ALL = START - timedelta(hours=3)

PUBLISHING_STEPS = ("publishing", "published quarantine_added", "published silver/readings", "published")


# A range, as arguments of a plan.
Range = dict[str, str]


class Story:
    """One seed.

    Args:
        chance: Decides everything.
        feed: Brings events into the input.
        command: The command line in the input's project.
    """

    def __init__(self, chance: random.Random, feed: Feed, command: CommandLine) -> None:
        self.chance, self.feed, self.command = chance, feed, command
        self.events = feed.into
        self.is_windows = not self.events.has_places or chance.random() < 0.5
        self.damage = chance.choice(("rows lost", "rows lost", "wrong code", "none"))
        self.publish = chance.choice(("now", "now", "now", "now", "publish", "abort"))
        self.chunk = chance.choice(
            (None, chance.choice(("1 hour", "3 hours") if self.is_windows else ("100", "400")))
        )
        self.is_compacted = chance.random() < 0.5
        # Windows that wrong code has closed end here, and its last batch.
        self.wrong_until, self.wrong_batch = START, 0
        # Seconds, of the first live driver.
        self.to_first_batch = 0.0
        # Backfills that were killed, by step.
        self.killed: Counter[str] = Counter()

    def declare(self, name: str, code: dict[str, str]) -> LakePipeline:
        """Return the pipeline, or its control."""
        lake, is_control = self.events.lake, name == "control"
        keeps_late = self.is_windows and self.events.has_places and not is_control
        pipeline = self.events.control if is_control else self.events.pipeline
        return pipeline(
            name,
            event_time={
                "column": "timestamp",
                "watermark": "10 minutes",
                "late": "table" if keeps_late else "drop",
            },
            transform=lake.transform(name, (WINDOWS if self.is_windows else RECORDS).format(**code)),
            sinks=[{"delta": {"table": f"silver/{name}"}}],
            run={"trigger": "0 seconds"},
        )

    def run(self) -> None:
        """Run live drivers and backfills, until the stream has caught up with all events."""
        is_wrong = self.damage == "wrong code"
        self.pipeline = self.declare("readings", WRONG if is_wrong else RIGHT)
        tables = [self.events.lake.root / "tables" / name for name in ("silver/readings", "bronze/events")]
        with drivers_of(self.events.lake.folder) as drivers:
            self.kills = Kills(drivers, "readings", random.Random(self.chance.random()))
            self.kills.batch_timeout_seconds = PATIENT_SECONDS
            self.backfills = Backfills(drivers, self.pipeline, timeout_seconds=PATIENT_SECONDS)
            with feeding(self.feed), compacting(*tables) if self.is_compacted else nullcontext():
                self._first_life(drivers)
                if is_wrong:
                    self._correct()
                beside(self.kills, self._life, self._backfill)
        self.feed.send([closing_event()])
        self.events.keep_up()
        self.pipeline.run_incremental()

    def _first_life(self, drivers: Drivers) -> None:
        """Run a live driver for some windows, to measure the time of a start on this machine."""
        begun = time.monotonic()
        first = drivers.start("readings")
        drivers.wait_for_batch("readings", first, timeout_seconds=PATIENT_SECONDS)
        self.to_first_batch = time.monotonic() - begun
        self._wait_until_closed(START + 3 * WINDOW)
        assert first.is_running(), first.output[-3000:]
        first.kill()
        self.kills.phases["after some windows"] += 1

    def _life(self) -> None:
        self.kills.at_a_random_moment(EARLIEST * self.to_first_batch, LATEST * self.to_first_batch)

    def _correct(self) -> None:
        """Deploy the corrected code."""
        # A planned batch may already be in the table.
        batches = CheckpointBatches(self.events.lake.store, str(self.pipeline.checkpoint))
        self.wrong_batch = batches.last_planned() or 0
        planned = batches.offsets(self.wrong_batch)
        if planned is not None and planned.watermark is not None:
            self.wrong_until = START + (planned.watermark - START) // WINDOW * WINDOW
        self.declare("readings", RIGHT)
        acknowledge = ("checkpoint", "acknowledge", "readings", "--reason", "the code was wrong", "--apply")
        assert self.command(*acknowledge) == 0, self.command.err

    def _wait_until_closed(self, moment: datetime) -> LiveSide:
        """Wait for rows: those of windows, or any, and no batch of wrong code that is not finished."""

        def closed() -> LiveSide | None:
            live = read_live_side(self.events.lake.store, self.pipeline.resolved)
            if live is None or live.batch_id is None or live.batch_id < self.wrong_batch:
                return None
            is_closed = live.closed_until is not None and live.closed_until >= moment
            return live if is_closed or not self.is_windows else None

        live = eventually(
            closed, f"windows before {moment} are closed", READY_TIMEOUT_SECONDS, poll_seconds=0.5
        )
        assert live is not None
        return live

    def _backfill(self) -> None:
        """Delete or spoil rows, and correct them with a backfill."""
        live = self._wait_until_closed(max(self.wrong_until, START + 3 * WINDOW))
        with self.feed.session:
            self.events.forget(live)
            self.bounds, lost = self._windows(live) if self.is_windows else self._records(live)
            if self.damage == "rows lost":
                DeltaTable(str(self.events.lake.root / "tables/silver/readings")).delete(lost)
        if self.publish == "now":
            self._carry_out(self._plan("now"), self._steps())
            return
        plan = self._plan("later")
        self._carry_out(plan, (*self._steps(), "staged"))
        if self.publish == "publish":
            self.pipeline.ask_to_publish(plan)
            self._carry_out(plan, PUBLISHING_STEPS)
        else:
            assert self.command("backfill", "abort", "readings", "--plan", plan.digest) == 0, self.command.err
            self._carry_out(self._plan("now"), self._steps())

    def _plan(self, publish: Publish) -> BackfillPlan:
        with self.feed.session:
            return self.pipeline.plan(chunk=self.chunk, publish=publish, **self.bounds)

    def _steps(self) -> tuple[str, ...]:
        return (*FIRST_STEPS, "replaced silver/readings", LAST_STEP, "late_dropped", "chunk_done 0")

    def _carry_out(self, plan: BackfillPlan, steps: tuple[str, ...]) -> None:
        """Complete the plan after one or two kills."""
        step = self.chance.choice(steps)
        self.killed[step] += self.backfills.try_to_kill_at(plan, step)
        if self.chance.random() < 0.5:
            seconds = self.chance.uniform(EARLIEST, LATEST) * self.to_first_batch
            python_only = self.chance.random() < 0.5
            self.killed["at a moment"] += self.backfills.try_to_kill_after(plan, seconds, python_only)
        if self.chance.random() < 0.25:
            self.backfills.carry_out(plan)
        else:
            with self.feed.session:
                self.pipeline.apply(plan)

    def _windows(self, live: LiveSide) -> tuple[Range, str]:
        """Return the range to process again, and the condition for its rows that are deleted before."""
        assert live.closed_until is not None
        first = self.chance.choice((BEFORE_ALL, START))
        start, end = random_windows(self.chance, first, live.closed_until, WINDOW)
        if self.damage == "wrong code":
            start, end = BEFORE_ALL, self.wrong_until
        lost = f"window_start >= '{start.isoformat()}' AND window_start < '{end.isoformat()}'"
        return times(start, end), f"{lost} AND events % 3 = {self.chance.randrange(3)}"

    def _records(self, live: LiveSide) -> tuple[Range, str]:
        """Return a range of rows that each come from one record, and that a finished batch has written."""
        assert live.offsets is not None
        ((topic, read),) = live.offsets.items()
        spans = {n: sorted(self.chance.sample(range(end + 1), 2)) for n, end in read.items() if end > 0}
        by_offsets = {
            f"{side}_offsets": json.dumps({topic: {n: span[place] for n, span in spans.items()}})
            for place, side in enumerate(("start", "end"))
        }
        start, end = random_windows(self.chance, BEFORE_ALL, self.feed.sent[-1].event_time, WINDOW)
        lost = f"{within({n: (0, end) for n, end in read.items()})} AND kafka_offset % 3 = 0"
        everything = times(BEFORE_ALL, CLOSING_TIME), lost
        if self.damage == "wrong code":
            return everything
        some = f"{lost} AND timestamp >= '{start.isoformat()}' AND timestamp < '{end.isoformat()}'"
        return self.chance.choice((everything, (times(start, end), some), (by_offsets, within(spans))))

    def line(self) -> str:
        """Return a summary of the seed's run."""
        manner = f"chunks {self.chunk}" if self.chunk else "at once"
        return (
            f"{type(self.events).__name__}, {'windows' if self.is_windows else 'records'}, {self.damage}, "
            f"{manner}, {self.publish}: {len(self.feed.sent)} events, range {self.bounds}, "
            f"streams killed {dict(self.kills.phases)}, backfills killed {dict(+self.killed)}"
        )


def times(start: datetime, end: datetime) -> Range:
    return {"start": start.isoformat(), "end": end.isoformat()}


def within(spans: Mapping[str, Sequence[int]]) -> str:
    """SQL condition of the rows of some records, by partition."""
    parts = (
        f"kafka_partition = {n} AND kafka_offset >= {first} AND kafka_offset < {end}"
        for n, (first, end) in spans.items()
    )
    return f"({' OR '.join(parts)})"


def settings_of(chance: random.Random, has_late: bool) -> IotSettings:
    """Return events of some devices, every few seconds of event time."""
    return IotSettings(
        start=START,
        seed=chance.randrange(1_000_000),
        interval=timedelta(seconds=chance.choice((10, 20, 40))),
        devices=chance.randint(2, 5),
        late_rate=0.05,
        too_late_rate=0.05 if has_late else 0.0,
        # A repeated event may come too late as well.
        duplicate_rate=0.05 if has_late else 0.0,
        broken_rate=0.03,
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seeds = range(metafunc.config.getoption("rounds") or SEEDS)
    cases = [(seed, list(INPUTS)[seed % len(INPUTS)]) for seed in seeds]
    metafunc.parametrize(("seed", "name"), cases, ids=[f"seed{seed:02}-{name}" for seed, name in cases])


@pytest.fixture
def events(seed: int, name: str, tmp_path: Path, spark: SparkSession, kafka: Kafka) -> EventInput:
    return new_input(name, tmp_path / "lake", spark, kafka, random.Random(f"input {seed}"))


# Takes two to four minutes next to other suites.
@pytest.mark.timeout(2_400)
def test_backfills_beside_a_stream_all_killed_at_random_give_the_tables_of_a_run_without_faults(
    seed: int, events: EventInput, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", CONNECTION_STRING)
    chance = random.Random(f"story {seed}")
    feed = Feed(events, settings_of(chance, events.has_places), random.Random(f"feed {seed}"))
    story = Story(chance, feed, CommandLine(events.lake.folder, capsys.readouterr))
    feed.send(feed.take(20))
    events.keep_up()
    story.run()
    with capsys.disabled():
        # Print the history of the soak test.
        print(f"\nseed {seed}: {story.line()}")  # noqa: T201
    assert min(story.killed.total(), story.kills.phases.total()) > 0
    assert_like_control(events, story.pipeline, story.declare("control", RIGHT), feed.sent)
