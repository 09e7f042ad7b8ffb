"""Random histories of runs, wrong transforms and rewinds, each against what its input must give."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake
from tests.support.pipelines_on_disk import Killed
from tests.support.rewinds import (
    TRANSFORMS,
    declare,
    events_of_file,
    land_events,
    mend,
    newest_batch,
    rewind,
    rows_of,
    spoil,
)

SEED = 20261121
# Number of histories of each kind of pipeline, so 200 in all. Each takes about ten seconds on an idle
# machine.
HISTORIES = int(os.environ.get("SOAK_HISTORIES", "50"))
MOMENTS = ("epoch", "write checkpoint", "table silver/{}", "switch generation", "verify")
WATERMARK = timedelta(minutes=30)
WINDOW = timedelta(minutes=5)


class RandomHistory:
    """One pipeline in a separate lake."""

    def __init__(self, lake: Lake, kind: str, chance: random.Random) -> None:
        self.lake, self.kind, self.chance = lake, kind, chance
        self.files = 0
        self.rewinds = 0
        self.declare()

    def declare(self) -> None:
        """Other batches than before: the result must not depend on them."""
        self.pipeline = declare(self.lake, self.kind, self.kind, files=self.chance.randint(1, 3))

    def run(self) -> None:
        """Write new files, then read all waiting ones."""
        more = self.chance.randint(1, 3)
        land_events(self.lake, self.files, self.files + more)
        self.files += more
        self.declare()
        self.pipeline.run_incremental()

    def run_wrong(self) -> None:
        spoil(self.pipeline, self.kind)
        more = self.chance.randint(1, 3)
        land_events(self.lake, self.files, self.files + more)
        self.files += more
        self.pipeline.run_incremental()
        mend(self.pipeline, self.kind)

    def rewind_to(self, batch_id: int) -> None:
        """Killed on the way, perhaps, and repeated."""
        self.rewinds += 1
        for moment in self.chance.sample(MOMENTS, self.chance.randint(0, 2)):
            try:
                rewind(self.pipeline, batch_id, self.rewinds, moment.format(self.kind))
            except Killed:
                continue
        rewind(self.pipeline, batch_id, self.rewinds)

    def live(self) -> None:
        """Do good runs and a wrong one, rewind to before it or further, and continue."""
        for _ in range(self.chance.randint(1, 2)):
            self.run()
        good = newest_batch(self.pipeline)
        self.run_wrong()
        self.rewind_to(self.chance.randint(0, good))
        if self.chance.random() < 0.3:
            self.rewind_to(self.chance.randint(0, newest_batch(self.pipeline)))
        self.run()


def expected(kind: str, files: int) -> list[tuple[Any, ...]]:
    """Return the expected rows for the events of this many files."""
    events = [
        (event["id"], datetime.fromisoformat(event["at"]).astimezone(UTC), event["kind"])
        for number in range(files)
        for event in events_of_file(number)
    ]
    if kind == "stateless":
        return sorted(events)
    once = sorted(set(events))
    if kind == "dedup":
        return once
    return _windows(once) if kind == "windows" else _pairs(events)


def _windows(once: list[tuple[int, datetime, str]]) -> list[tuple[Any, ...]]:
    """Return windows that the watermark has closed."""
    closed = max(at for _, at, _ in once) - WATERMARK
    counts: Counter[datetime] = Counter()
    ids: Counter[datetime] = Counter()
    for number, at, _ in once:
        start = at - timedelta(minutes=at.minute % 5, seconds=at.second)
        counts[start] += 1
        ids[start] += number
    return sorted((start, counts[start], ids[start]) for start in counts if start + WINDOW <= closed)


def _pairs(events: list[tuple[int, datetime, str]]) -> list[tuple[Any, ...]]:
    """Return each `a` with each `b` of the same id within 20 minutes."""
    near = timedelta(minutes=20)
    firsts = [(number, at) for number, at, kind in events if kind == "a"]
    seconds = [(number, at) for number, at, kind in events if kind == "b"]
    return sorted(
        (number, at, other)
        for number, at in firsts
        for same, other in seconds
        if same == number and abs(other - at) <= near
    )


# Fifty histories of ten seconds, and a margin for a busy machine.
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", list(TRANSFORMS))
def test_random_histories_end_as_if_nothing_wrong_had_run(
    tmp_path: Path, spark: SparkSession, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(HISTORIES):
        history = RandomHistory(
            Lake(tmp_path / str(number), spark), kind, random.Random(f"{SEED} {kind} {number}")
        )
        history.live()
        assert rows_of(history.pipeline) == expected(kind, history.files), f"history {number}"
        with capsys.disabled():
            # Print the progress of the soak test.
            batches = newest_batch(history.pipeline) + 1
            seen = f"{history.files} files, {batches} batches, {history.rewinds} rewinds"
            sys.stdout.write(f"\r{kind} {number + 1}/{HISTORIES}: {seen}   ")
            sys.stdout.flush()
