"""`late: table`: rows in = on time + late + rejected, row for row, however often a batch is repeated."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.sinks.batch_commit import StepDone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2024, 1, 1, tzinfo=UTC)
# A row that ends the windows of all others; its own stays open.
LAST: list[str | None] = [(START + timedelta(days=1)).isoformat()]

# A result names the rows that it is made of, so that none can hide.
TRANSFORMS = {
    "tumbling": """
    windows = orders.groupBy(F.window("at", "5 minutes", startTime="7 seconds"), "id").count()
""",
    "sliding": """
    windows = orders.groupBy(F.window("at", "10 minutes", "5 minutes"), "id").count()
""",
    "deduplicated": """
    once = orders.dropDuplicates(["id", "at"])
    windows = once.groupBy(F.window("at", "5 minutes"), "id").count()
""",
}
CODE = """
from pyspark.sql import functions as F

def transform(orders):{windows}
    return windows.select(F.col("window.start").alias("at"), "id", "count")
"""


def moments(files: int, rows: int = 12) -> list[list[str | None]]:
    """Times of the rows of each file, which is a batch: some on one side of a limit, some on the other."""
    chosen = random.Random(11)
    found: list[list[str | None]] = []
    for number in range(files):
        newest = START + timedelta(minutes=20 * number)
        # Spark drops by the watermark of the batch before, which knows the batches before that one.
        limit = timedelta(minutes=2 * 20 + 10)
        behind = [
            timedelta(seconds=chosen.choice((60, 599, 3000, 3240, 3290, 3310, 3600))) for _ in range(rows)
        ]
        behind += [timedelta(0), limit, limit + timedelta(microseconds=1), limit - timedelta(microseconds=1)]
        # The same around the end of a window.
        end = (newest - limit).replace(second=7) - timedelta(minutes=5)
        behind += [newest - end + timedelta(microseconds=step) for step in (-1, 0, 1)]
        found.append([(newest - by).isoformat() for by in behind])
    found[0] += ["1969-12-31T23:59:59.5Z"]
    found[2] += ["1969-12-31T23:59:59.5Z", None, "2999-01-01T00:00:00Z"]
    return found


def landed(lake: Lake, files: list[list[str | None]]) -> list[int]:
    """Put the files where the pipelines read; the ids of all rows."""
    ids: list[int] = []
    for place, times in enumerate(files):
        numbers = range(1000 * place, 1000 * place + len(times))
        rows = [{"id": number, "at": at} for number, at in zip(numbers, times, strict=True)]
        lines = [json.dumps(row) for row in rows]
        lake.land(f"landing/orders/{place}.json", "\n".join([*lines, '{"id": broken', ""]))
        ids += numbers
    return ids


def pipeline(lake: Lake, name: str, transform: str, late: str) -> LakePipeline:
    windows = TRANSFORMS.get(transform)
    applied = {} if windows is None else {"transform": lake.transform(name, CODE.format(windows=windows))}
    files = {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}
    return lake.pipeline(
        name,
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": "10 minutes", "late": late},
        **applied,
        sinks=[{"delta": {"table": f"silver/{name}"}}],
        run={"mode": "incremental"},
    )


def once_at(*steps: str) -> StepDone:
    """Fail when one of the steps is done for the first time."""
    left = set(steps)

    def crash(step: str) -> None:
        if step in left:
            left.remove(step)
            raise CrashedError(step)

    return crash


def late_of(lake: Lake, name: str) -> dict[int, dict[str, Any]]:
    rows = lake.late(name)
    ids = [json.loads(row["value"])["id"] for row in rows]
    assert len(ids) == len(set(ids))
    return dict(zip(ids, rows, strict=True))


def late_by_batch(lake: Lake, name: str) -> dict[int | None, int | None]:
    entries = [commit.entry for commit in lake.ledger(f"silver/{name}") if commit.entry is not None]
    return {entry.batch_id: entry.late_rows for entry in entries}


def test_the_late_table_has_the_rows_that_spark_drops_once_each_over_crashes(lake: Lake) -> None:
    *ids, _ = landed(lake, [*moments(files=4), LAST])
    dropped = pipeline(lake, "dropped", "tumbling", "drop")
    dropped.run_incremental()
    kept = pipeline(lake, "kept", "tumbling", "table")
    crash = once_at("late_set_aside", "committed")
    for _ in range(2):
        with pytest.raises(CrashedError):
            kept.run_incremental(crash)
    kept.run_incremental(crash)

    on_time = [row["id"] for row in lake.rows("silver/kept")]
    late = late_of(lake, "kept")
    rejected = lake.quarantined("kept")
    ahead = [json.loads(r["value"])["id"] for r in rejected if r["reason"] == "ahead_of_arrival:at"]
    assert sorted([*on_time, *late, *ahead]) == ids
    assert len(rejected) == len(ahead) + 5

    # Nothing of the result is another than without the table, and Spark counts the same rows; one that has no
    # time is in no window, without a word of Spark's.
    assert sorted(map(str, lake.rows("silver/kept"))) == sorted(map(str, lake.rows("silver/dropped")))
    timeless = [row for row in late.values() if row["event_time"] is None]
    assert [row["reason"] for row in timeless] == ["no_event_time:at"]
    counted = late_by_batch(lake, "dropped")
    assert counted[2] is not None
    assert late_by_batch(lake, "kept") == counted | {2: counted[2] + 1}
    assert Counter(row["batch_id"] for row in late.values()) == Counter(
        {batch: rows for batch, rows in late_by_batch(lake, "kept").items() if rows}
    )
    assert all(row["event_time"] <= row["watermark"] for row in late.values() if row["event_time"])
    assert all(row["file"] and row["reason"] for row in late.values())


@pytest.mark.soak
@pytest.mark.parametrize("transform", ["sliding", "deduplicated", "none"])
def test_no_row_is_lost_where_a_row_is_late_by_its_own_time(lake: Lake, transform: str) -> None:
    """Windows that overlap, a step before the window, and no transform at all."""
    files = [*moments(files=4), LAST]
    ids = landed(lake, files)
    kept = pipeline(lake, "kept", transform, "table")
    kept.run_incremental()
    late = late_of(lake, "kept")
    rejected = [json.loads(r["value"])["id"] for r in lake.quarantined("kept") if "ahead" in r["reason"]]
    assert late.keys() == behind_watermark(files)
    on_time = [number for number in ids if number not in late and number not in rejected]
    expected = {
        "sliding": dict.fromkeys(on_time[:-1], 2),
        "deduplicated": dict.fromkeys(on_time[:-1], 1),
        "none": dict.fromkeys(on_time, 1),
    }
    assert Counter(row["id"] for row in lake.rows("silver/kept")) == expected[transform]


def behind_watermark(files: list[list[str | None]]) -> set[int]:
    """Return ids of the rows that are late by their own time, or have none."""
    late = set()
    for place, times in enumerate(files):
        watermark = START + timedelta(minutes=20 * (place - 2) - 10) if place > 1 else EPOCH
        for number, at in enumerate(times):
            if at is None or datetime.fromisoformat(at) <= watermark:
                late.add(1000 * place + number)
    return late


@pytest.mark.soak
def test_the_daily_summary_keeps_readings_that_come_after_their_day(lake: Lake) -> None:
    """The repository's own example: of a table, whose rows name records of a topic that are not its own."""
    pipeline = lake.copy_pipeline("iot_daily_summary")
    for hours in ([1, 2, 3], [30], [31], [5, 32]):
        rows = [reading(hour) for hour in hours]
        write_deltalake(
            str(lake.root / "tables/bronze/iot_events"), pa.Table.from_pylist(rows), mode="append"
        )
        pipeline.run_incremental()
    (day,) = lake.rows("gold/iot_daily_summary")
    assert (day["day_start"], day["events"]) == (START, 3)
    (late,) = lake.late("iot_daily_summary")
    assert json.loads(late["value"])["event_id"] == "reading-5"
    assert (late["event_time"], late["topic"]) == (START + timedelta(hours=5), None)
    assert late["watermark"] == START + timedelta(hours=30)


def reading(hour: int) -> dict[str, Any]:
    lineage = {"kafka_topic": "iot_events", "kafka_partition": 0, "kafka_offset": hour}
    values = {"temperature": 20.5, "humidity": 40.0, "timestamp": START + timedelta(hours=hour)}
    return {"event_id": f"reading-{hour}", "device_id": "kitchen", **values, **lineage}
