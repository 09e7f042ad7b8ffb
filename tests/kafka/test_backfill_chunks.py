"""Backfills in chunks: one that ends between two chunks continues with the remaining ones."""

from __future__ import annotations

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from tests.support.minute_orders import (
    EVENT_TIME,
    FILTER,
    START,
    WINDOWS,
    DiedError,
    Orders,
    at,
    dies_at,
    orders,
    windows_of,
)
from tidemill.backfill.progress import read_progress

__all__ = ["orders"]


@pytest.mark.soak
def test_a_backfill_in_chunks_goes_on_with_those_that_are_left(orders: Orders) -> None:
    """It is killed after a chunk, and in the next one after its rows are written, while the stream runs."""
    pipeline = orders.pipeline("paid", FILTER)
    orders.send(20)
    orders.send(4, without="price")
    orders.send(20)
    pipeline.run_incremental()
    orders.delete("silver/paid", f"kafka_offset % 3 = 0 AND at >= '{at(2)}' AND at < '{at(42)}'")
    plan = pipeline.plan(at(2), at(42), chunk="15")
    orders.requires("id", "at", "price")

    with pytest.raises(DiedError):
        pipeline.apply(plan, dies_at("chunk_done 1"))
    orders.send(10)
    with pytest.raises(DiedError):
        pipeline.apply(plan, dies_at("replaced silver/paid"))
    pipeline.run_incremental()
    pipeline.apply(plan)

    progress = read_progress(orders.lake.store, pipeline.resolved.layout, "paid", plan.digest)
    assert progress is not None
    assert progress.chunks is not None
    assert (len(progress.done), progress.chunks >= 3, progress.left) == (progress.chunks, True, timedelta())
    assert len({chunk.run_id for chunk in progress.done.values()}) == 2
    commits = [c.entry for c in orders.lake.ledger("silver/paid") if c.entry and c.entry.plan == plan.digest]
    # One commit per chunk, and one more of the chunk that was committed but not reported.
    assert len(commits) == progress.chunks + 1
    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 50
    assert len(orders.lake.quarantined("paid")) == 4
    # A repeated request runs the whole backfill again. The same holds after a restore that took back its
    # first chunks.
    version = DeltaTable(str(orders.lake.root / "tables/silver/paid")).version()
    orders.delete("silver/paid", "true")
    with pytest.raises(DiedError):
        pipeline.apply(plan, dies_at("chunk_done 0"))
    DeltaTable(str(orders.lake.root / "tables/silver/paid")).restore(version + 1)
    pipeline.apply(plan)
    assert len(orders.places("silver/paid")) == progress.rows["silver/paid"]


@pytest.mark.soak
def test_windows_in_chunks_are_those_of_the_stream(orders: Orders) -> None:
    event_time = {**EVENT_TIME, "late": "table"}
    pipeline = orders.pipeline("windows", WINDOWS.format(window='"5 minutes"'), event_time=event_time)
    orders.send(60)
    pipeline.run_incremental()
    orders.send(4, at=at(12))
    pipeline.run_incremental()
    before, late = windows_of(orders), orders.lake.late("windows")
    plan = pipeline.plan(at(10), at(40), chunk="7 minutes")
    starts = [part.bounds.start for part in plan.parts if part.bounds.start is not None]
    assert len(starts) >= 4
    assert all((start - START) % timedelta(minutes=5) == timedelta() for start in starts)
    assert len(late) == 4

    with pytest.raises(DiedError):
        pipeline.apply(plan, dies_at("chunk_done 1"))
    pipeline.apply(plan)

    after = windows_of(orders)
    assert sum(count for *_, count in after) == sum(count for *_, count in before) + 4
    assert [row for row in after if row[1] != START + timedelta(minutes=10)] == [
        row for row in before if row[1] != START + timedelta(minutes=10)
    ]
    assert orders.lake.late("windows") == []
