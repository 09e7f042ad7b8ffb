"""Kills at Spark's own steps in a pipeline with state, which purges old batches while new ones run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver_process import drivers_of
from tests.support.jvm_programs import compile_class
from tests.support.kill_points import KillStory, Standing
from tests.support.lake import Lake

WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    once = orders.dropDuplicates(["id", "at"])
    windows = once.groupBy(F.window("at", "5 minutes")).agg(F.count("*").alias("orders"))
    return windows.select(F.col("window.start").alias("window_start"), "orders")
"""

# Batches whose logs and state Spark keeps. The product keeps a hundred and more: minutes until a purge.
KEEP_TWO = {"spark.sql.streaming.minBatchesToRetain": "2"}

# Each file is a batch: three minutes of orders, each sent twice, and the last minute of the previous file.
FILES = 8
MINUTES = [range(max(0, 3 * number - 1), 3 * number + 3) for number in range(FILES)]
# The last order moves the watermark past all windows but its own.
LAST_MINUTE = 59


def order(minute: int) -> dict[str, object]:
    return {"id": minute, "at": f"2024-01-01T00:{minute:02}:00Z"}


@pytest.fixture
def story(tmp_path: Path) -> Iterator[KillStory]:
    # No session of the test run: each driver brings its own.
    lake = Lake(tmp_path / "lake", None)  # type: ignore[arg-type]
    for number, minutes in enumerate([*MINUTES, [LAST_MINUTE]]):
        lake.land_rows(f"landing/orders/{number}.json", [order(minute) for minute in minutes for _ in (1, 2)])
    files = {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}
    pipeline = lake.pipeline(
        "windows",
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": "10 minutes", "window": "5 minutes"},
        transform=lake.transform("windows", WINDOWS),
        sinks=[{"delta": {"table": "silver/windows", "writer": "spark"}}],
        run={"trigger": "0 seconds"},
    )
    classes = compile_class("KillingFileManager", tmp_path / "classes")
    with drivers_of(lake.folder) as drivers:
        yield KillStory(drivers, pipeline, classes, KEEP_TWO)


def test_a_kill_in_the_purge_and_one_before_the_end_is_recorded_change_no_window(story: KillStory) -> None:
    # K3: the offsets of the oldest batch are gone, but its commit is not. Spark purges while batches run.
    story.kill_at("offsets/0 purged")
    assert (story.files("offsets/0"), len(story.files("commits/0"))) == ([], 1)
    story.check_gate()
    # K8: state and table have the batch; `.6.tmp` is whole and has no name yet.
    assert story.kill_at("commits/6 renaming") == Standing(planned=6, written=6, recorded=5)
    assert [text.partition("\n")[0] for text in story.files("commits/.6.*.tmp")] == ["v2"]
    story.check_gate()

    end = story.run_to_the_end()
    assert end.planned == end.written == end.recorded
    rows = sorted(
        (row["window_start"].minute, row["orders"]) for row in story.pipeline.lake.rows("silver/windows")
    )
    # Result of a batch computation for minutes 0 to 23.
    assert rows == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 4)]
