"""A batch that crashes anywhere and is run again is in every table exactly once."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.support.lake import REPOSITORY, Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.sinks.batch_commit import StepDone

ORDERS = {
    "files": {
        "path": "landing/orders",
        "format": "json",
        "schema": "id long, at timestamp, price double",
        "max_files_per_batch": 1,
    }
}
MINUTE = "2024-01-01T00:{:02}:00Z"

# Steps of one batch, in order: an arrow sink writes its files and commits, then a spark sink commits.
STEPS = ["files_written", "committed", "committed"]


def crash_at_step(number: int) -> StepDone:
    """Fail when that many steps were done since the start of the run, counted from 1."""
    counter = itertools.count(1)

    def crash(step: str) -> None:
        if next(counter) == number:
            raise CrashedError(f"{number}: {step}")

    return crash


def order(number: int, **other: Any) -> dict[str, Any]:
    return {"id": number, "at": MINUTE.format(number), "price": 1.0, **other}


@pytest.fixture
def two_tables(lake: Lake) -> LakePipeline:
    """Return a pipeline with two files, which are two batches, each for two tables."""
    for number in (1, 2):
        lake.land_rows(f"landing/orders/{number}.json", [order(number), order(number + 10, price=200.0)])
    return lake.pipeline(
        "orders",
        source=ORDERS,
        sinks=[
            {"delta": {"table": "bronze/orders"}},
            {"delta": {"table": "silver/large_orders", "writer": "spark", "where": "price > 100"}},
        ],
        run={"mode": "incremental"},
    )


# Between the tables of the first batch, and of the second; the next test comes to the other steps.
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(1, marks=pytest.mark.soak),
        2,
        *(pytest.param(step, marks=pytest.mark.soak) for step in (3, 5)),
    ],
)
def test_a_crash_after_any_step_and_a_second_run_write_each_row_once(
    lake: Lake, two_tables: LakePipeline, step: int
) -> None:
    with pytest.raises(CrashedError, match=f"{step}: {STEPS[(step - 1) % len(STEPS)]}"):
        two_tables.run_incremental(crash_at_step(step))
    two_tables.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2, 11, 12]
    assert sorted(row["id"] for row in lake.rows("silver/large_orders")) == [11, 12]
    for table in ("bronze/orders", "silver/large_orders"):
        assert [c.entry.batch_id for c in lake.ledger(table) if c.entry] == [1, 0]


def test_a_crash_in_every_second_run_ends_with_each_row_once(lake: Lake, two_tables: LakePipeline) -> None:
    for step in (2, 1, 3):
        with pytest.raises(CrashedError):
            two_tables.run_incremental(crash_at_step(step))
    two_tables.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2, 11, 12]
    assert sorted(row["id"] for row in lake.rows("silver/large_orders")) == [11, 12]


WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    once = orders.dropDuplicates(["id", "at"])
    windows = once.groupBy(F.window("at", "5 minutes")).agg(F.count("*").alias("orders"))
    return windows.select(F.col("window.start").alias("window_start"), "orders")
"""
# Result of a batch computation for minutes 1-14, each sent twice. The last order only moves the watermark.
WINDOW_ROWS = [(0, 4), (5, 5), (10, 5)]


@pytest.mark.parametrize(
    ("sink", "batch"),
    [
        ({}, 2),
        pytest.param({"writer": "spark"}, 1, marks=pytest.mark.soak),
        pytest.param({"mode": "merge", "key": ["window_start"]}, 2, marks=pytest.mark.soak),
    ],
    ids=["arrow", "spark", "merge"],
)
def test_state_goes_on_after_a_crash_between_table_and_checkpoint(
    lake: Lake, sink: dict[str, Any], batch: int
) -> None:
    """The table has the batch, Spark repeats it: state must be computed though nothing is written."""
    minutes = list(range(1, 15))
    for number, part in enumerate((minutes[:5], minutes[3:9], [*minutes[9:], 45])):
        lake.land_rows(f"landing/orders/{number}.json", [order(minute) for minute in part for _ in (1, 2)])
    pipeline = lake.pipeline(
        "windows",
        source=ORDERS,
        event_time={"column": "at", "watermark": "10 minutes", "window": "5 minutes"},
        transform=lake.transform("windows", WINDOWS),
        sinks=[{"delta": {"table": "silver/windows", **sink}}],
        run={"mode": "incremental"},
    )
    seen = itertools.count(1)

    def crash(step: str) -> None:
        if step == "committed" and next(seen) == batch:
            raise CrashedError(step)

    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash)
    pipeline.run_incremental()
    rows = sorted((row["window_start"].minute, row["orders"]) for row in lake.rows("silver/windows"))
    # Merging writes windows before they are closed, the last order's too.
    assert rows == (WINDOW_ROWS if "mode" not in sink else [*WINDOW_ROWS, (45, 1)])


@pytest.mark.soak
def test_a_console_shows_the_whole_result_of_each_batch_or_what_changed(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "spark_apps/transforms/word_count.py"
    (lake.folder / words).write_text((REPOSITORY / words).read_text())
    shown = {}
    for mode in ("complete", "update"):
        for number, line in enumerate(("to be or not", "to do is to be")):
            lake.land(f"landing/{mode}/{number}.txt", line)
        source = {"files": {"path": f"landing/{mode}", "format": "text", "max_files_per_batch": 1}}
        lake.pipeline(
            mode,
            source=source,
            transform="word_count:transform",
            sinks=[{"console": {"mode": mode, "where": "word IN ('to', 'or')"}}],
            run={"mode": "incremental"},
        ).run_incremental()
        shown[mode] = re.findall(r"batch (\d)|\|(\w+) *\|(\d) ", capsys.readouterr().out)
    first, second, counted = ("0", "", ""), ("1", "", ""), ("", "to", "3")
    assert shown["update"][:1] + shown["update"][3:] == [first, second, counted]
    assert sorted(shown["complete"][4:]) == [("", "or", "1"), counted]
    assert shown["complete"][3] == second


def test_a_sink_that_shows_rows_and_one_that_keeps_them_share_a_batch(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.land_rows("landing/orders/1.json", [order(1), order(2)])
    pipeline = lake.pipeline(
        "orders",
        source=ORDERS,
        sinks=[{"console": {"rows": 1, "where": "id > 1"}}, {"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2]
    assert "batch 0" in capsys.readouterr().out
