"""A backfill with staged rows changes its table once, when a user publishes it, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.lake import Lake, LakePipeline
from tidemill.backfill.downstream import stale_behind
from tidemill.errors import DataError, UsageError
from tidemill.ledger.read import Commit

START = datetime(2024, 1, 1, tzinfo=UTC)
END = START + timedelta(minutes=30)
TABLE = "silver/counts"

COUNTS = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("at", "5 minutes"), "device").agg(F.count("*").alias("readings"))
    return windows.select(F.col("window.start").alias("window_start"), "device", "readings")
"""

HOURS = """
from pyspark.sql import functions as F

def transform(counts):
    windows = counts.groupBy(F.window("window_start", "30 minutes")).agg(F.sum("readings").alias("total"))
    return windows.select(F.col("window.start").alias("hour"), "total")
"""

EVENTS = [*(START + timedelta(minutes=number) for number in range(30)), END + timedelta(hours=1)]

# Steps in order. The steps of the two chunks come before them.
PUBLISHING_STEPS = (
    "staged",
    "publishing",
    "published quarantine_added",
    f"published {TABLE}",
    "published quarantine_dropped",
    "published",
    "staging_dropped",
)


class KilledError(Exception):
    """Ends a driver at a step, as far as a test in the same process can."""


@pytest.fixture
def counts(lake: Lake) -> LakePipeline:
    """Return a live table of windows of which half were lost."""
    pipeline = live_counts(lake)
    DeltaTable(str(lake.root / "tables" / TABLE)).delete("device = 'd1'")
    return pipeline


def live_counts(lake: Lake, **sink: Any) -> LakePipeline:
    schema = "id long, at timestamp, device string"
    pipeline = lake.pipeline(
        "counts",
        source={"files": {"path": "landing", "format": "json", "schema": schema}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("counts", COUNTS),
        sinks=[{"delta": {"table": TABLE, **sink}}],
        run={"mode": "incremental"},
    )
    land(lake, "events", EVENTS)
    pipeline.run_incremental()
    return pipeline


def land(lake: Lake, name: str, moments: list[datetime]) -> None:
    rows = [{"id": n, "at": at.isoformat(), "device": f"d{n % 2}"} for n, at in enumerate(moments)]
    lake.land_rows(f"landing/{name}.json", rows)


def staged(counts: LakePipeline, **manner: Any) -> Any:
    return counts.plan(START.isoformat(), END.isoformat(), publish="later", **manner)


def kill_at(counts: LakePipeline, plan: Any, wanted: str) -> None:
    def step_done(step: str) -> None:
        if step == wanted:
            raise KilledError

    with pytest.raises(KilledError):
        counts.apply(plan, step_done)


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted((row["window_start"], row["device"], row["readings"]) for row in lake.rows(TABLE))


def wanted_rows() -> list[tuple[Any, ...]]:
    """Five events of two devices in each window, in turns."""
    found = []
    for number in range(6):
        first = 3 if number % 2 == 0 else 2
        start = START + timedelta(minutes=5 * number)
        found += [(start, "d0", first), (start, "d1", 5 - first)]
    return found


def version(lake: Lake) -> int:
    return DeltaTable(str(lake.root / "tables" / TABLE)).version()


def published(lake: Lake) -> list[Commit]:
    return [commit for commit in lake.ledger(TABLE) if commit.entry and commit.entry.published]


def staged_files(lake: Lake) -> list[str]:
    return [str(file) for file in lake.root.glob("backfills/*/staged/**/*.parquet")]


@pytest.mark.soak
def test_windows_behind_a_backfill_are_stale_until_they_are_processed_again(
    lake: Lake, counts: LakePipeline
) -> None:
    land(lake, "later", [END + timedelta(hours=3)])
    counts.run_incremental()
    hours = lake.pipeline(
        "hours",
        source={"delta": {"table": TABLE, "changes": "skip"}},
        event_time={"column": "window_start", "watermark": "10 minutes"},
        transform=lake.transform("hours", HOURS),
        sinks=[{"delta": {"table": "gold/hours"}}],
        run={"mode": "incremental"},
    )
    hours.run_incremental()
    counts.backfill(START.isoformat(), END.isoformat())
    hours.run_incremental()
    assert totals(lake) == [15]

    (stale,) = stale_behind(lake.store, counts.resolved, (START, END))
    assert (stale.pipeline, stale.sees, stale.way, stale.range) == (
        "hours",
        "skips",
        "backfill",
        (START, END),
    )
    hours.backfill(START.isoformat(), END.isoformat())
    assert totals(lake) == [30]


def totals(lake: Lake) -> list[int]:
    return [row["total"] for row in lake.rows("gold/hours") if row["hour"] == START]


def test_staged_rows_are_seen_by_nobody_until_one_commit_brings_them_beside_the_stream(
    lake: Lake, counts: LakePipeline
) -> None:
    before, lacking = version(lake), rows(lake)
    plan = staged(counts, chunk="15 minutes")
    counts.apply(plan)
    assert (version(lake), rows(lake)) == (before, lacking)
    assert staged_files(lake)

    # The stream moves on.
    land(lake, "later", [END + timedelta(hours=3)])
    counts.run_incremental()
    live = version(lake)
    counts.ask_to_publish(plan)
    counts.apply(plan)
    assert version(lake) == live + 1
    (commit,) = published(lake)
    assert (commit.rows, commit.entry and commit.entry.plan) == (12, plan.digest)
    assert [row for row in rows(lake) if row[0] < END] == wanted_rows()
    assert staged_files(lake) == []


def test_publishing_that_is_killed_at_any_step_and_repeated_makes_one_commit(
    lake: Lake, counts: LakePipeline
) -> None:
    plan = staged(counts, chunk="15 minutes")
    kill_at(counts, plan, "chunk_done 0")
    kill_at(counts, plan, PUBLISHING_STEPS[0])
    counts.ask_to_publish(plan)
    for step in PUBLISHING_STEPS[1:]:
        kill_at(counts, plan, step)
    counts.apply(plan)
    assert len(published(lake)) == 1
    assert [row for row in rows(lake) if row[0] < END] == wanted_rows()
    assert staged_files(lake) == []


@pytest.mark.soak
def test_a_row_that_a_killed_chunk_rejects_and_its_next_attempt_accepts_is_published_into_one_table(
    lake: Lake,
) -> None:
    counts = live_counts(
        lake, expectations={"few": {"expect": "readings <= 3", "on_violation": "quarantine"}}
    )
    plan = staged(counts, chunk="15 minutes")
    kill_at(counts, plan, "chunk_done 0")
    # During one attempt, the window of the 20th minute has a fourth event of one device.
    land(lake, "events", [*EVENTS, *2 * [START + timedelta(minutes=21)]])
    kill_at(counts, plan, "quarantine_added")
    assert staged_rejections(lake) == 1
    land(lake, "events", EVENTS)
    counts.apply(plan)
    assert staged_rejections(lake) == 0

    counts.ask_to_publish(plan)
    counts.apply(plan)
    assert [row for row in rows(lake) if row[0] < END] == wanted_rows()
    assert lake.quarantined("counts") == []


def staged_rejections(lake: Lake) -> int:
    (table,) = lake.root.glob("backfills/*/staged/*/quarantine/counts")
    return DeltaTable(str(table)).count()


@pytest.mark.soak
def test_rows_that_were_published_and_taken_back_are_not_published_in_silence(
    lake: Lake, counts: LakePipeline
) -> None:
    """Delta itself would skip the second commit: it knows the transaction."""
    plan = staged(counts)
    counts.apply(plan)
    counts.ask_to_publish(plan)
    before = version(lake)
    kill_at(counts, plan, f"published {TABLE}")
    DeltaTable(str(lake.root / "tables" / TABLE)).restore(before)
    with pytest.raises(DataError) as refusal:
        counts.apply(plan)
    assert refusal.value.error_id == "TIDE-BACK-060"
    assert refusal.value.facts["plan"] == plan.digest


@pytest.mark.soak
def test_rows_of_changed_code_are_neither_staged_nor_published(lake: Lake, counts: LakePipeline) -> None:
    plan = staged(counts)
    counts.apply(plan)
    counts.ask_to_publish(plan)
    lake.transform("counts", COUNTS.replace("5 minutes", "15 minutes"))
    before = version(lake)
    with pytest.raises(UsageError) as refusal:
        counts.apply(plan)
    assert refusal.value.error_id == "TIDE-BACK-016"
    assert version(lake) == before
    # The change may be taken back.
    assert staged_files(lake)
