"""Rows without an event time: windows drop them, and each counts once, also in a repeated batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.sinks.batch_commit import StepDone

WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    windows = orders.groupBy(F.window("at", "5 minutes")).count()
    return windows.select(F.col("window.start").alias("at"), "count")
"""
PLAIN = """
def transform(orders):
    return orders
"""
# Minutes of the events of each batch. None is an event without an event time.
BATCHES: list[list[int | None]] = [[0, 1, None, 7], [None, None, 30, 31], [0, 90, None], [1]]


def landed(lake: Lake) -> None:
    for place, minutes in enumerate(BATCHES):
        times = [
            None if minute is None else f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
            for minute in minutes
        ]
        lines = [json.dumps({"id": number, "at": at}) for number, at in enumerate(times)]
        lake.land(f"landing/orders/{place}.json", "\n".join([*lines, '{"id": broken', ""]))


def pipeline(lake: Lake, code: str, mode: str = "append", **event_time: Any) -> LakePipeline:
    files = {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}
    return lake.pipeline(
        "orders",
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": "10 minutes", **event_time},
        transform=lake.transform("orders", code),
        sinks=[{"delta": {"table": f"silver/{name}", "mode": mode}} for name in ("orders", "copy")],
        run={"mode": "incremental"},
    )


def counts(lake: Lake, table: str = "silver/orders") -> dict[int | None, int | None]:
    entries = [commit.entry for commit in lake.ledger(table) if commit.entry is not None]
    return {entry.batch_id: entry.no_event_time_rows for entry in entries}


def once_at(step: str, batch: int) -> StepDone:
    """Fail when the step is done for the batch: the steps of earlier batches come first."""
    left = [batch]

    def crash(done: str) -> None:
        if done == step:
            left[0] -= 1
            if left[0] == -1:
                raise CrashedError(step)

    return crash


def test_what_comes_in_is_in_windows_late_rejected_or_counted(lake: Lake) -> None:
    landed(lake)
    orders = pipeline(lake, WINDOWS)
    reporter = orders.run_incremental()
    assert counts(lake) == counts(lake, "silver/copy") == {0: 1, 1: 2, 2: 1, 3: 0}
    entries = [commit.entry for commit in lake.ledger("silver/orders") if commit.entry is not None]
    # The window of the newest event is still open.
    in_windows = sum(row["count"] for row in lake.rows("silver/orders")) + 1
    aside = sum((e.quarantined_rows or 0) + (e.late_rows or 0) + (e.no_event_time_rows or 0) for e in entries)
    assert in_windows + aside == sum(map(len, BATCHES)) + len(BATCHES)
    assert (reporter.status.no_event_time_rows, reporter.status.late_rows) == (4, 1)


@pytest.mark.parametrize("step", ["quarantined", "files_written", "committed"])
def test_a_batch_that_is_repeated_after_a_crash_counts_once(lake: Lake, step: str) -> None:
    landed(lake)
    orders = pipeline(lake, WINDOWS)
    with pytest.raises(CrashedError):
        orders.run_incremental(step_done=once_at(step, batch=1))
    orders.run_incremental()
    assert counts(lake) == counts(lake, "silver/copy") == {0: 1, 1: 2, 2: 1, 3: 0}


def test_a_backfill_of_everything_counts_them(lake: Lake) -> None:
    landed(lake)
    orders = pipeline(lake, WINDOWS, mode="replace")
    assert orders.backfill().status.no_event_time_rows == 4
    assert counts(lake) == counts(lake, "silver/copy") == {None: 4}


def test_nothing_is_counted_where_rows_without_event_time_are_written(lake: Lake) -> None:
    landed(lake)
    pipeline(lake, PLAIN).run_incremental()
    assert set(counts(lake).values()) == {None}
    assert sum(row["at"] is None for row in lake.rows("silver/orders")) == 4


def test_nothing_is_counted_where_they_are_among_the_late_ones(lake: Lake) -> None:
    landed(lake)
    pipeline(lake, WINDOWS, late="table").run_incremental()
    assert set(counts(lake).values()) == {None}
    assert sum(row["reason"] == "no_event_time:at" for row in lake.late("orders")) == 4
