"""Late rows are counted in the ledger entry of their batch, the same however often the batch is repeated."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.sinks.batch_commit import StepDone

WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    windows = orders.dropDuplicates(["id", "at"]).groupBy(F.window("at", "5 minutes")).count()
    return windows.select(F.col("window.start").alias("window_start"), "count")
"""

# Minutes of each file, which is a batch. The first takes the watermark to minute 90. Spark drops by the one
# that the batch before ran with, so the third batch is the first that loses rows, and the fourth loses one.
FILES = [[0, 100], [101], [1, 2, 2, 102], [3, 200]]
LATE = {0: 0, 1: 0, 2: 3, 3: 1}


def crash_at_step(number: int) -> StepDone:
    """Fail after this number of steps in this run."""
    steps = itertools.count(1)

    def crash(step: str) -> None:
        if next(steps) == number:
            raise CrashedError(step)

    return crash


@pytest.fixture
def windows(lake: Lake) -> LakePipeline:
    """Return two tables, one of each writer."""
    numbers = itertools.count()
    for place, minutes in enumerate(FILES):
        rows = [{"id": next(numbers), "at": f"2024-01-01T{m // 60:02}:{m % 60:02}:00Z"} for m in minutes]
        lake.land_rows(f"landing/orders/{place}.json", rows)
    files = {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}
    return lake.pipeline(
        "windows",
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("windows", WINDOWS),
        sinks=[
            {"delta": {"table": "bronze/windows"}},
            {"delta": {"table": "silver/windows", "writer": "spark"}},
        ],
        run={"mode": "incremental"},
    )


def told(lake: Lake, table: str) -> dict[int | None, int | None]:
    """Late rows by batch; a batch without data, which only closes windows, has none."""
    entries = [commit.entry for commit in lake.ledger(table) if commit.entry is not None]
    assert len({entry.batch_id for entry in entries}) == len(entries)
    return {entry.batch_id: entry.late_rows for entry in entries if entry.batch_id in LATE}


def test_late_rows_add_up_over_crashes_at_every_step_of_their_batch(
    lake: Lake, windows: LakePipeline
) -> None:
    """Steps of a batch: files of the first table, its commit, the commit of the second table."""
    steps_before = 2 * 3
    for step in (steps_before + 1, 2, 2):
        with pytest.raises(CrashedError):
            windows.run_incremental(crash_at_step(step))
    reporter = windows.run_incremental()
    assert told(lake, "bronze/windows") == told(lake, "silver/windows") == LATE
    # The status counts only the batches that this driver wrote.
    assert reporter.status.late_rows == LATE[3]


def test_a_batch_that_reads_no_row_twice_has_no_late_rows(lake: Lake) -> None:
    """Nothing in a pipeline without state is late."""
    lake.land_rows("landing/orders/0.json", [{"id": 0}])
    plain: dict[str, Any] = {"files": {"path": "landing/orders", "format": "json", "schema": "id long"}}
    pipeline = lake.pipeline(
        "plain", source=plain, sinks=[{"delta": {"table": "bronze/plain"}}], run={"mode": "incremental"}
    )
    pipeline.run_incremental()
    assert told(lake, "bronze/plain") == {0: 0}
