"""Times that Python's datetime does not hold: they are written, set aside or late like any others."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.support.lake import Lake, LakePipeline

# Microseconds since 1970: of year -290308, of now, of the year 10000, and of year 294247.
BEFORE, RECENT, BEHIND, LAST = -(2**63), 1_760_000_000_000_000, 253_402_300_800_000_000, 2**63 - 1


def landed(lake: Lake) -> None:
    times = pa.array([BEFORE, RECENT, BEHIND, LAST], pa.int64()).view(pa.timestamp("us", "UTC"))
    folder = lake.root / "landing"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "at": times}), folder / "1.parquet")


def pipeline(lake: Lake, **event_time: Any) -> LakePipeline:
    files = {"path": "landing", "format": "parquet", "schema": "id long, at timestamp"}
    timed = {"event_time": {"column": "at", "watermark": "1 minute", **event_time}} if event_time else {}
    return lake.pipeline(
        "orders",
        source={"files": files},
        **timed,
        sinks=[{"delta": {"table": "silver/orders", "writer": "arrow"}}],
        run={"mode": "incremental"},
    )


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.root / "tables/silver/orders"))


def written(lake: Lake) -> dict[int, int]:
    rows = table(lake).to_pyarrow_table()
    return dict(zip(rows["id"].to_pylist(), rows["at"].cast(pa.int64()).to_pylist(), strict=True))


def test_the_arrow_writer_writes_every_time_and_readers_find_it(lake: Lake) -> None:
    landed(lake)
    pipeline(lake).run_incremental()
    assert written(lake) == {1: BEFORE, 2: RECENT, 3: BEHIND, 4: LAST}
    late = ds.field("at") >= pa.scalar(BEHIND, pa.timestamp("us", "UTC"))
    found = table(lake).to_pyarrow_dataset().to_table(columns=["id"], filter=late)
    assert sorted(found["id"].to_pylist()) == [3, 4]
    assert (
        lake.spark.read.format("delta")
        .load(str(lake.root / "tables/silver/orders"))
        .where(f"at >= timestamp_micros({BEHIND}L)")
        .count()
        == 2
    )


def test_rows_ahead_of_their_arrival_are_in_the_quarantine_with_their_time(lake: Lake) -> None:
    landed(lake)
    pipeline(lake, max_ahead="1 hour").run_incremental()
    assert written(lake) == {1: BEFORE, 2: RECENT}
    aside = {row["id"]: row["at"] for row in (json.loads(row["value"]) for row in lake.quarantined("orders"))}
    assert aside == {3: "+10000-01-01T00:00:00.000000Z", 4: "+294247-01-10T04:00:54.775807Z"}
