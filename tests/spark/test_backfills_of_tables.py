"""A backfill next to a stream of a table reads only the rows that the stream has read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.lake import Lake, LakePipeline
from tidemill.engine.drain import Drain
from tidemill.errors import UsageError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=5)

HOURS = """
from pyspark.sql import functions as F

def transform(readings):
    hours = readings.groupBy(F.window("at", "1 hour")).agg(F.sum("value").alias("total"))
    return hours.select(F.col("window.start").alias("hour"), "total")
"""


def hours_of(lake: Lake, **source: Any) -> LakePipeline:
    return lake.pipeline(
        "hours",
        source={"delta": {"table": "bronze/raw", **source}},
        event_time={"column": "at", "watermark": "10 minutes", "late": "table"},
        transform=lake.transform("hours", HOURS),
        sinks=[{"delta": {"table": "silver/hours"}}],
        run={"mode": "incremental"},
    )


def raw(lake: Lake) -> str:
    return str(lake.root / "tables/bronze/raw")


def append(lake: Lake, *readings: tuple[datetime, int]) -> None:
    times, values = zip(*readings, strict=True)
    columns = {"at": pa.array(times, pa.timestamp("us", "UTC")), "value": pa.array(values, pa.int64())}
    # A file of each value.
    write_deltalake(raw(lake), pa.table(columns), mode="append", partition_by=["value"])


def backfill(hours: LakePipeline) -> None:
    hours.backfill(NOON.isoformat(), (NOON + timedelta(hours=1)).isoformat())


def total(lake: Lake) -> list[int]:
    return [row["total"] for row in lake.rows("silver/hours") if row["hour"] == NOON]


def test_rows_that_the_stream_has_not_read_are_left_to_it(lake: Lake) -> None:
    """They would be in a window, and among the late ones when the stream comes to them."""
    hours = hours_of(lake)
    append(lake, (NOON, 1), (LATER, 0))
    hours.run_incremental()
    append(lake, (NOON, 10))
    backfill(hours)
    hours.run_incremental()
    assert total(lake) == [1]
    assert len(lake.late("hours")) == 1
    # The stream has read the rows and set them aside as late. A backfill adds them to their window.
    backfill(hours)
    assert total(lake) == [11]


@pytest.mark.parametrize("first", ["a snapshot", pytest.param("a commit", marks=pytest.mark.soak)])
def test_a_version_that_the_stream_has_read_in_part_waits_for_the_rest(lake: Lake, first: str) -> None:
    hours = hours_of(lake, max_files_per_batch=1)
    append(lake, (LATER, 0))
    if first == "a snapshot":
        # Spark takes none of its second batch for late.
        for value in (0, 1, 10):
            append(lake, (NOON, value))
    else:
        hours.run_incremental()
        append(lake, (NOON, 1), (NOON, 10))
    drain = Drain()

    def stop_at_a_late_row(step: str) -> None:
        if step == "committed" and lake.late("hours"):
            drain.request()

    hours.run_incremental(stop_at_a_late_row, drain)
    assert len(lake.late("hours")) == 1
    with pytest.raises(UsageError, match="a part of a version") as refused:
        backfill(hours)
    assert refused.value.error_id == "TIDE-BACK-006"
    hours.run_incremental()
    backfill(hours)
    assert total(lake) == [11]


@pytest.mark.soak
def test_rows_that_were_changed_before_those_to_read_next_are_read(lake: Lake) -> None:
    hours = hours_of(lake, changes="skip")
    append(lake, (NOON, 1), (LATER, 0))
    hours.run_incremental()
    DeltaTable(raw(lake)).update(updates={"value": "5"}, predicate="value = 1")
    append(lake, (NOON, 10))
    backfill(hours)
    assert total(lake) == [5]


def test_rows_that_were_changed_behind_those_to_read_next_wait_for_the_stream(lake: Lake) -> None:
    hours = hours_of(lake, changes="skip")
    append(lake, (NOON, 1), (LATER, 0))
    hours.run_incremental()
    append(lake, (LATER, 10))
    DeltaTable(raw(lake)).update(updates={"value": "5"}, predicate="value = 1")
    with pytest.raises(UsageError) as refused:
        backfill(hours)
    assert refused.value.error_id == "TIDE-BACK-006"
    hours.run_incremental()
    backfill(hours)
    assert total(lake) == [5]
