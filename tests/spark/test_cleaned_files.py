"""Files that were read and archived are read by backfills all the same; deleted ones forbid a backfill."""

from __future__ import annotations

import shutil
from datetime import date
from typing import Any

import pytest

from tests.support.cleaning import clean
from tests.support.lake import Lake, LakePipeline
from tidemill.errors import UsageError

TABLE = "silver/ids"
TRANSFORM = """
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(rows: DataFrame) -> DataFrame:
    hours = rows.groupBy(F.window("at", "1 hour"))
    result = hours.agg(F.array_sort(F.collect_list("id")).alias("ids"), F.max("day").alias("day"))
    return result.select(F.col("window.start").alias("window_start"), "ids", "day")
"""


def landed(hour: int) -> str:
    return f"landing/ids/day=2026-01-0{hour + 1}/part {hour}.json"


def land(lake: Lake, hour: int) -> None:
    """Write three rows of an hour, and a line that is not JSON."""
    rows = [f'{{"id": {10 * hour + n}, "at": "2026-01-01T0{hour}:0{n}:00Z"}}' for n in range(3)]
    lake.land(landed(hour), "\n".join([*rows[:2], f"broken {hour}", rows[2], ""]))


def declare(lake: Lake, after: str) -> LakePipeline:
    files = {
        "path": "landing/ids",
        "format": "json",
        "schema": "id long, at timestamp, day date",
        "max_files_per_batch": 1,
        "after": after,
    }
    return lake.pipeline(
        "ids",
        source={"files": files},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("ids", TRANSFORM),
        sinks=[{"delta": {"table": TABLE, "mode": "append"}}],
        run={"mode": "incremental"},
    )


def windows(lake: Lake) -> list[tuple[int, list[int], date]]:
    rows = lake.rows(TABLE)
    return sorted((row["window_start"].hour, row["ids"], row["day"]) for row in rows)


def hours(*numbers: int) -> list[tuple[int, list[int], date]]:
    return [(n, [10 * n, 10 * n + 1, 10 * n + 2], date(2026, 1, n + 1)) for n in numbers]


def broken(lake: Lake) -> list[tuple[Any, ...]]:
    """Return each broken line, with its file below the root."""
    prefix = f"file:{lake.root}/"
    return sorted(
        (row["file"].removeprefix(prefix), row["line"], row["value"]) for row in lake.quarantined("ids")
    )


def files_in(lake: Lake, folder: str) -> list[str]:
    return sorted(str(file.relative_to(lake.root / folder)) for file in (lake.root / folder).rglob("*.json"))


def test_archived_files_are_read_again_once_and_deleted_ones_never_make_rows_fewer(lake: Lake) -> None:
    pipeline = declare(lake, "archive")
    for hour in range(3):
        land(lake, hour)
    pipeline.run_incremental()
    plan = clean(pipeline.resolved)
    assert (plan["streams"]["source"]["files"], plan["streams"]["source"]["to"]) == (
        2,
        str(lake.root / "archived/landing/ids"),
    )
    # The newest one stays: a folder without a file is none on an object store.
    assert files_in(lake, "landing/ids") == [landed(2).removeprefix("landing/ids/")]
    assert files_in(lake, "archived") == [landed(hour) for hour in range(2)]

    land(lake, 4)
    pipeline.run_incremental()
    assert windows(lake) == hours(0, 1, 2)
    seen = broken(lake)
    assert seen == [(landed(n).replace(" ", "%20"), 3, f"broken {n}".encode()) for n in (0, 1, 2, 4)]

    # Copy the file into both folders, as a move that was interrupted on an object store does.
    shutil.copy(lake.root / "archived" / landed(1), lake.root / landed(1))
    before = windows(lake)
    backfill = pipeline.plan("2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z")
    assert all(difference.is_none for difference in pipeline.verify(backfill).values())
    pipeline.apply(backfill)
    assert windows(lake) == before
    assert broken(lake) == seen

    pipeline = declare(lake, "delete")
    approved = pipeline.plan("2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z")
    (lake.root / landed(1)).unlink()
    assert clean(pipeline.resolved)["streams"]["source"]["files"] == 1
    assert files_in(lake, "landing/ids") == [landed(4).removeprefix("landing/ids/")]
    for attempt in (
        lambda: pipeline.apply(approved),
        lambda: pipeline.plan("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
    ):
        with pytest.raises(UsageError) as refused:
            attempt()
        assert (refused.value.error_id, refused.value.facts["count"]) == ("TIDE-BACK-008", 1)
    assert windows(lake) == before
    pipeline.run_incremental()
    assert windows(lake) == before
