"""Several streams with event times: scheduled runs close the windows that a stream and a batch close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import rewind
from tests.support.running_stream import running_stream
from tests.support.writer_cases import CrashedError, crash_at
from tidemill import testing
from tidemill.checkpoint.status import read_status
from tidemill.checkpoint.stream_watermarks import read_watermarks

START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = "id string, at timestamp"
# Minutes of the events in order of their delivery. No delivery has rows of both streams.
DELIVERIES = (
    ("plant_a", range(60)),
    ("plant_b", range(0, 40, 2)),
    ("plant_a", range(60, 120)),
    ("plant_b", range(40, 120, 2)),
)
UNION = """
from pyspark.sql import functions as F

def transform(plant_a, plant_b):
    windows = plant_a.unionByName(plant_b).groupBy(F.window("at", "5 minutes"))
    return windows.agg(F.count("*").alias("events")).select(F.col("window.start").alias("start"), "events")
"""
JOIN = """
from pyspark.sql import functions as F

def transform(plant_a, plant_b):
    a = plant_a.select("id", F.col("at").alias("start"))
    b = plant_b.select(F.col("id").alias("b_id"), F.col("at").alias("b_at"))
    near = "b_id = id AND b_at BETWEEN start AND start + interval 1 minute"
    return a.join(b, F.expr(near), "left").select("start", "b_id")
"""


def declare(lake: Lake, code: str = UNION, name: str = "counted", **run: Any) -> LakePipeline:
    for stream in ("plant_a", "plant_b"):
        (lake.root / f"landing/{stream}").mkdir(parents=True, exist_ok=True)
    files = {"format": "json", "schema": SCHEMA, "max_files_per_batch": 1}
    event_time = {"column": "at", "watermark": "2 minutes", "max_ahead": "off"}
    return lake.pipeline(
        name,
        sources={
            stream: {"files": {"path": f"landing/{stream}", **files}, "event_time": event_time}
            for stream in ("plant_a", "plant_b")
        },
        transform=lake.transform(name, code),
        sinks=[{"delta": {"table": f"silver/{name}"}}],
        run={"mode": "incremental", "shuffle_partitions": 2, **run},
    )


def deliver(lake: Lake, number: int) -> int:
    """Land the rows of one delivery; return their number."""
    stream, minutes = DELIVERIES[number]
    rows = [
        {"id": f"event {minute}", "at": (START + timedelta(minutes=minute)).isoformat()} for minute in minutes
    ]
    lake.land_rows(f"landing/{stream}/{number}.json", rows)
    return len(rows)


def deliveries(lake: Lake) -> Iterator[int]:
    """Land each delivery, and yield the number of rows so far."""
    total = 0
    for number in range(len(DELIVERIES)):
        total += deliver(lake, number)
        yield total


def over(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the rows that no later event can change. The watermarks end at minute 116."""
    return sorted(str(row) for row in rows if row["start"] < START + timedelta(minutes=114))


def result(lake: Lake, name: str = "counted") -> list[str]:
    return over(lake.rows(f"silver/{name}")) if lake.data_files(f"silver/{name}") else []


def batch(lake: Lake, code: str = UNION) -> list[str]:
    """Return the result of the same function for all rows at once."""
    transform: dict[str, Any] = {}
    exec(code, transform)
    read = lake.spark.read.schema(SCHEMA).json
    streams = (read(str(lake.root / f"landing/{stream}")) for stream in ("plant_a", "plant_b"))
    return over(transform["transform"](*streams).toArrow().to_pylist())


def test_runs_that_read_one_stream_each_give_the_rows_of_a_stream_and_of_a_batch(lake: Lake) -> None:
    streamed = declare(lake, name="streamed", mode="stream", trigger="0 seconds")
    scheduled = declare(lake)
    store, layout = lake.store, streamed.resolved.layout

    def rows_read() -> int:
        status = read_status(store, layout, "streamed")
        return 0 if status is None else status.rows

    with running_stream(streamed) as stream:
        for total in deliveries(lake):
            stream.wait_until(lambda total=total: rows_read() == total, f"{total} rows were read")
            reporter = scheduled.run_incremental()
        expected = batch(lake)
        assert len(expected) == 23
        stream.wait_until(lambda: result(lake, "streamed") == expected, "all windows are written")
        stream.drain()
    assert result(lake) == expected
    assert reporter.status.watermarks == {
        "plant_a": START + timedelta(minutes=117),
        "plant_b": START + timedelta(minutes=116),
    }


@pytest.mark.parametrize("code", [UNION, JOIN], ids=["union", "join"])
def test_watermarks_go_on_behind_crashes_and_a_rewind(lake: Lake, code: str) -> None:
    pipeline = declare(lake, code)
    for _ in deliveries(lake):
        with pytest.raises(CrashedError):
            pipeline.run_incremental(crash_at("committed"))
        pipeline.run_incremental()
    expected = batch(lake, code)
    assert expected
    assert result(lake) == expected
    second = read_watermarks(lake.store, str(pipeline.checkpoint), before=2)
    assert list(second) == ["plant_a", "plant_b"]
    rewind(pipeline, 1)
    assert len(result(lake)) < len(expected)
    g0002 = str(pipeline.checkpoint.with_name("g0002"))
    assert read_watermarks(lake.store, g0002) == second
    pipeline.run_incremental()
    assert result(lake) == expected


def test_a_checkpoint_without_kept_watermarks_goes_on_as_spark_does(lake: Lake) -> None:
    pipeline = declare(lake)
    for _ in deliveries(lake):
        pipeline.run_incremental()
        for file in (pipeline.checkpoint / "watermarks").iterdir():
            file.unlink()
    assert result(lake) == []
    lake.land_rows("landing/plant_a/9.json", [{"id": "a", "at": (START + timedelta(hours=3)).isoformat()}])
    lake.land_rows("landing/plant_b/9.json", [{"id": "b", "at": (START + timedelta(hours=3)).isoformat()}])
    pipeline.run_incremental()
    assert result(lake) == batch(lake)


def test_the_policy_max_closes_windows_by_the_furthest_stream(lake: Lake) -> None:
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    lake.spark.conf.set(policy, "max")
    try:
        pipeline = declare(lake)
        deliver(lake, 2)
        pipeline.run_incremental()
        deliver(lake, 3)
        reporter = pipeline.run_incremental()
    finally:
        lake.spark.conf.unset(policy)
    assert reporter.status.watermark == START + timedelta(minutes=117)
    assert reporter.status.watermarks == {
        "plant_a": START + timedelta(minutes=117),
        "plant_b": START + timedelta(minutes=116),
    }


def test_the_parity_kit_gives_the_rows_of_two_streams_in_scheduled_runs(lake: Lake) -> None:
    declare(lake)
    rows = [
        (stream, {"id": f"event {minute}", "at": START + timedelta(minutes=minute)})
        for stream, minutes in DELIVERIES
        for minute in minutes
    ]
    file = lake.folder / "conf/pipelines/counted.yaml"
    testing.assert_same_result(file, rows, lake.folder / "runs", lake.spark, splits=2)
