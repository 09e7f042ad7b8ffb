"""Backfills of records that were set aside, rejected or late: each is in one place, before and after."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.minute_orders import (
    EVENT_TIME,
    START,
    WINDOWS,
    DiedError,
    Orders,
    at,
    dies_at,
    orders,
    windows_of,
)

__all__ = ["orders"]


@pytest.mark.parametrize(
    "by_offsets", [pytest.param(True, marks=pytest.mark.soak), False], ids=["offsets", "time"]
)
def test_a_record_is_in_the_table_or_in_quarantine_after_the_schema_has_changed(
    orders: Orders, by_offsets: bool
) -> None:
    """Records that are now rejected leave the table, and records that are now accepted leave quarantine."""
    pipeline = orders.pipeline("paid", sinks=[{"delta": {"table": "bronze/paid"}}])
    orders.send(10)
    orders.send(5, without="price")
    orders.send(5, without="note")
    pipeline.run_incremental()
    assert (len(orders.lake.rows("bronze/paid")), len(orders.lake.quarantined("paid"))) == (15, 5)
    orders.requires("id", "at", "note")

    if by_offsets:
        pipeline.backfill(**orders.all_offsets())
    else:
        pipeline.backfill("2020-01-01", "2030-01-01")

    rows, rejected = orders.lake.rows("bronze/paid"), orders.lake.quarantined("paid")
    assert [row["reason"] for row in rejected] == ["missing_required:note"] * 5
    assert sum(row["price"] is None for row in rows) == 5
    places = [(row["kafka_partition"], row["kafka_offset"]) for row in rows]
    places += [(row["partition"], row["offset"]) for row in rejected]
    assert len(places) == len(set(places)) == 20


@pytest.mark.soak
def test_staged_rows_and_rejections_are_each_in_one_place_before_and_after_they_are_published(
    orders: Orders,
) -> None:
    pipeline = orders.pipeline("paid", sinks=[{"delta": {"table": "bronze/paid"}}])
    orders.send(10)
    orders.send(5, without="price")
    orders.send(5, without="note")
    pipeline.run_incremental()
    orders.requires("id", "at", "note")
    plan = pipeline.plan("2020-01-01", "2030-01-01", chunk="7", publish="later")
    pipeline.apply(plan)
    assert reasons(orders) == ["missing_required:price"] * 5
    assert len(orders.places("bronze/paid")) == 15
    found = pipeline.verify(plan)
    assert [(each.rows, each.is_none) for each in found.values()] == [(15, True), (5, True)]

    pipeline.ask_to_publish(plan)
    with pytest.raises(DiedError):
        pipeline.apply(plan, dies_at("published bronze/paid"))
    pipeline.apply(plan)
    assert reasons(orders) == ["missing_required:note"] * 5
    rejected = [(row["partition"], row["offset"]) for row in orders.lake.quarantined("paid")]
    places = [*orders.places("bronze/paid"), *rejected]
    assert len(places) == len(set(places)) == 20


def reasons(orders: Orders) -> list[str]:
    return [row["reason"] for row in orders.lake.quarantined("paid")]


@pytest.mark.soak
def test_an_event_leaves_the_quarantine_once_its_window_counts_it(orders: Orders) -> None:
    """Only events in the range of the windows move into the table; others stay in the quarantine."""
    pipeline = orders.pipeline("windows", WINDOWS.format(window='"5 minutes"'))
    orders.send(20, without="price")
    orders.send(20)
    pipeline.run_incremental()
    assert len(orders.lake.quarantined("windows")) == 20
    orders.requires("id", "at")

    pipeline.backfill(at(5), at(15))

    assert sum(count for _, start, count in windows_of(orders) if start < START + timedelta(minutes=20)) == 10
    assert len(orders.lake.quarantined("windows")) == 10


@pytest.mark.soak
def test_a_late_order_leaves_the_table_of_late_ones_once_its_window_counts_it(orders: Orders) -> None:
    """Each record is counted in a window or is in that table, before the backfill and after it."""
    event_time = {**EVENT_TIME, "late": "table"}
    pipeline = orders.pipeline("windows", WINDOWS.format(window='"5 minutes"'), event_time=event_time)
    for _ in range(2):
        orders.send(20)
        pipeline.run_incremental()
    orders.send(4, at=at(7))
    orders.send(3, at=at(22))
    pipeline.run_incremental()
    assert counted_and_late(orders) == (35, 7)

    plan = pipeline.plan(at(5), at(15), publish="later")
    pipeline.apply(plan)
    assert counted_and_late(orders) == (35, 7)
    pipeline.ask_to_publish(plan)
    pipeline.apply(plan)
    assert counted_and_late(orders) == (39, 3)
    pipeline.backfill(at(5), at(15))
    assert counted_and_late(orders) == (39, 3)
    assert {row["event_time"] for row in orders.lake.late("windows")} == {START + timedelta(minutes=22)}


def counted_and_late(orders: Orders) -> tuple[int, int]:
    """Return orders of windows that are over, and orders that came too late for theirs."""
    late = [(row["partition"], row["offset"]) for row in orders.lake.late("windows")]
    assert len(late) == len(set(late))
    return sum(count for *_, count in windows_of(orders)), len(late)
