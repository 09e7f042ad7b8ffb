"""One result: the same files through a stream, incremental runs, split at random, and a backfill."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream

START = datetime(2024, 1, 1, tzinfo=UTC)
END = START + timedelta(hours=1)
# Events come at most this much out of order, which is less than the watermark.
JITTER_SECONDS = 500
EVENTS = 300

EVENT_TIME = {"column": "at", "watermark": "10 minutes"}
STATELESS = """
from pyspark.sql import functions as F

def transform(readings):
    return readings.where("value IS NOT NULL").select("id", "at", (F.col("value") * 2).alias("twice"))
"""
WINDOWED = """
from pyspark.sql import functions as F

def transform(readings):
    once = readings.dropDuplicates(["id", "at"])
    windows = once.groupBy(F.window("at", "5 minutes"), "device").agg(
        F.count("*").alias("readings"), F.sum("value").alias("total"), F.max("value").alias("peak")
    )
    return windows.select(F.col("window.start").alias("window_start"), "device", "readings", "total", "peak")
"""


def events(chance: random.Random) -> list[dict[str, Any]]:
    """Return an hour in order of arrival, with some late within the watermark, some twice, and a last one."""
    made = []
    for number in range(EVENTS):
        at = START + timedelta(seconds=chance.uniform(0, 3599))
        value = None if chance.random() < 0.1 else float(chance.randrange(100))
        made.append({"id": number, "at": at.isoformat(), "device": f"d{number % 3}", "value": value})
    made += [dict(event) for event in chance.sample(made, EVENTS // 10)]

    def arrival(event: dict[str, Any]) -> float:
        return datetime.fromisoformat(event["at"]).timestamp() + chance.uniform(0, JITTER_SECONDS)

    made.sort(key=arrival)
    return [*made, {"id": -1, "at": (END + timedelta(hours=1)).isoformat(), "device": "clock", "value": 0.0}]


def split(chance: random.Random, rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in order, cut into a few files."""
    cuts = sorted(chance.sample(range(1, len(rows)), chance.randrange(1, 5)))
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        yield rows[start:end]


def declare(lake: Lake, name: str, code: str, **sink: Any) -> LakePipeline:
    schema = "id long, at timestamp, device string, value double"
    files = {"path": "landing/readings", "format": "json", "schema": schema, "max_files_per_batch": 1}
    return lake.pipeline(
        name,
        source={"files": files},
        event_time=EVENT_TIME,
        transform=lake.transform(name, code),
        sinks=[{"delta": {"table": f"silver/{name}", **sink}}],
        run={"mode": "incremental"},
    )


def rows_of(lake: Lake, table: str, time: str) -> list[str]:
    """Return the rows of the hour, sorted."""
    return sorted(str(row) for row in lake.rows(table) if row[time] < END)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 6))])
@pytest.mark.parametrize(
    ("code", "time"),
    [pytest.param(STATELESS, "at", marks=pytest.mark.soak), (WINDOWED, "window_start")],
    ids=["stateless", "windowed"],
)
def test_incremental_runs_and_a_backfill_give_the_same_rows(
    lake: Lake, code: str, time: str, seed: int
) -> None:
    chance = random.Random(seed)
    live = declare(lake, "live", code, time=time)
    for number, rows in enumerate(split(chance, events(chance))):
        lake.land_rows(f"landing/readings/{number}.json", rows)
        if chance.random() < 0.5:
            live.run_incremental()
    live.run_incremental()
    past = declare(lake, "past", code, time=time)
    past.backfill(START.isoformat(), END.isoformat())
    expected = rows_of(lake, "silver/live", time)
    assert expected
    assert rows_of(lake, "silver/past", time) == expected
    # Again over half of it, and over the live table itself: no row changes.
    past.backfill(START.isoformat(), (START + timedelta(minutes=30)).isoformat())
    assert rows_of(lake, "silver/past", time) == expected


@pytest.mark.soak
def test_a_backfill_of_closed_windows_leaves_the_live_table_as_it_was(lake: Lake) -> None:
    chance = random.Random(3)
    live = declare(lake, "live", WINDOWED, time="window_start")
    lake.land_rows("landing/readings/0.json", events(chance))
    live.run_incremental()
    before = rows_of(lake, "silver/live", "window_start")
    live.backfill(START.isoformat(), END.isoformat())
    assert rows_of(lake, "silver/live", "window_start") == before
    lake.land_rows("landing/readings/1.json", [])
    live.run_incremental()
    assert rows_of(lake, "silver/live", "window_start") == before


SELECTED = """
def transform(readings):
    return readings.select("device", "signal").where("signal > 15")
"""


def test_a_batch_a_stream_and_an_incremental_run_give_the_same_rows(lake: Lake) -> None:
    sent = [{"device": f"d{number}", "signal": number / 2, "x": number} for number in range(60)]
    for number in range(3):
        lake.land_rows(f"landing/signals/{number}.json", sent[20 * number : 20 * number + 20])
    schema = "device string, signal double"
    files = {"path": "landing/signals", "format": "json", "schema": schema, "max_files_per_batch": 1}

    def declared(name: str, **run: Any) -> LakePipeline:
        return lake.pipeline(
            name,
            source={"files": files},
            transform=lake.transform("selected", SELECTED),
            sinks=[{"delta": {"table": f"silver/{name}"}}],
            run=run,
        )

    def rows(name: str) -> list[tuple[str, float]]:
        found = lake.rows(f"silver/{name}") if lake.data_files(f"silver/{name}") else []
        return sorted((row["device"], row["signal"]) for row in found)

    expected = sorted((row["device"], row["signal"]) for row in sent if row["signal"] > 15)
    with running_stream(declared("streamed", mode="stream", trigger="0 seconds")) as stream:
        stream.wait_until(lambda: rows("streamed") == expected, "all rows are in the table")
        stream.drain()
    declared("read", mode="incremental").run_incremental()
    transform: dict[str, Any] = {}
    exec(SELECTED, transform)
    batch = transform["transform"](lake.spark.read.schema(schema).json(str(lake.root / "landing/signals")))
    assert rows("read") == sorted(map(tuple, batch.collect())) == expected
