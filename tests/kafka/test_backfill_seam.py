"""Backfills while a stream runs: they replace exactly the rows that provably belong to the range.

The live stream commits at the worst moments: after the plan, and during the backfill.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.minute_orders import (
    EVENT_TIME,
    FILTER,
    SCHEMA,
    START,
    WINDOWS,
    Orders,
    at,
    once,
    orders,
    windows_of,
)
from tidemill.backfill.plan import BackfillPlan
from tidemill.errors import DataError, FencedError, GateRefusedError, SpecError, UsageError

__all__ = ["orders"]

COUNTS = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.groupBy("id").count()
"""
NEWEST = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.groupBy("id").agg(F.max_by("price", "at").alias("price"), F.max("at").alias("at"))
"""
# An earlier version of the code, which reads the time differently.
AN_HOUR_LATER = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.withColumn("at", F.col("at") + F.expr("INTERVAL 1 HOUR")).where("price > 0")
"""


def refused(plan: Callable[[], BackfillPlan]) -> UsageError:
    with pytest.raises(UsageError) as refusal:
        plan()
    return refusal.value


@pytest.mark.soak
@pytest.mark.parametrize("event_time", [EVENT_TIME, None], ids=["event_time", "none"])
def test_rows_of_a_filter_that_the_stream_adds_meanwhile_stay(
    orders: Orders, event_time: dict[str, str] | None
) -> None:
    """Without windows, time alone cannot distinguish the new rows from those of the range."""
    pipeline = orders.pipeline("paid", FILTER, event_time=event_time)
    orders.send(20)
    pipeline.run_incremental()
    whole = ("2020-01-01", "2030-01-01")
    plan = pipeline.plan(*whole)
    orders.send(20)
    pipeline.run_incremental()
    orders.send(10)

    pipeline.apply(plan, once(pipeline.run_incremental))

    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 50


def test_a_range_of_time_replaces_the_rows_of_its_records_whatever_time_they_have(orders: Orders) -> None:
    """Rows that older code put an hour later go, and come back where they belong."""
    wrong = orders.pipeline("paid", AN_HOUR_LATER)
    orders.send(30)
    wrong.run_incremental()
    right = orders.pipeline("paid", FILTER)

    right.backfill(at(10), at(20))

    times = sorted(row["at"] for row in orders.lake.rows("silver/paid"))
    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 30
    mended = [moment for moment in times if moment < START + timedelta(hours=1)]
    assert {START + timedelta(minutes=m) for m in range(10, 20)} <= set(mended)


@pytest.mark.soak
def test_deleted_rows_come_back_in_their_range_alone(orders: Orders) -> None:
    pipeline = orders.pipeline("paid", FILTER)
    orders.send(40)
    pipeline.run_incremental()
    before = orders.places("silver/paid")
    orders.delete("silver/paid", f"at >= '{at(10)}' AND at < '{at(30)}'")
    assert len(orders.places("silver/paid")) == 20
    pipeline.backfill(at(10), at(30))
    assert orders.places("silver/paid") == before
    pipeline.backfill(at(10), at(30))
    assert orders.places("silver/paid") == before


def test_ranges_that_adjoin_leave_no_record_without_a_time_between_them(orders: Orders) -> None:
    """The schema requires no time. The record at the border has none either, and is in the first range."""
    orders.requires("id", "price")
    pipeline = orders.pipeline("paid", sinks=[{"delta": {"table": "bronze/paid"}}])
    orders.send(10)
    orders.send(4, without="at")
    orders.send(6)

    pipeline.backfill(at(0), at(12))
    pipeline.backfill(at(12), at(20))

    assert len(orders.places("bronze/paid")) == len(set(orders.places("bronze/paid"))) == 20


def test_a_driver_that_has_passed_the_gate_is_fenced_off_by_a_backfill_before_the_first_start(
    orders: Orders,
) -> None:
    """It would begin where the topic begins and write the same rows again; so would the next one."""
    orders.send(20)
    pipeline = orders.pipeline("paid", FILTER)
    plan = pipeline.plan(at(0), at(20))

    with pytest.raises(FencedError) as fenced:
        pipeline.run_incremental(admitted=lambda: pipeline.apply(plan))

    assert fenced.value.error_id == "TIDE-RUN-001"
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert refused.value.error_id == "TIDE-CKPT-009"
    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 20


@pytest.mark.soak
def test_a_range_without_records_changes_nothing(orders: Orders) -> None:
    pipeline = orders.pipeline("paid", FILTER)
    orders.send(10)
    pipeline.run_incremental()
    before = orders.places("silver/paid")
    pipeline.backfill("2020-01-01", "2020-01-02")
    assert orders.places("silver/paid") == before


@pytest.mark.parametrize(
    "code", [pytest.param(COUNTS, marks=pytest.mark.soak), NEWEST], ids=["running_totals", "newest_value"]
)
def test_merged_values_of_the_past_do_not_take_the_place_of_newer_ones(orders: Orders, code: str) -> None:
    sinks = [{"delta": {"table": "silver/by_id", "mode": "merge", "key": ["id"]}}]
    pipeline = orders.pipeline("by_id", code, sinks=sinks)
    orders.send(20)
    pipeline.run_incremental()
    before = sorted(map(str, orders.lake.rows("silver/by_id")))

    refusal = refused(lambda: pipeline.plan(at(0), at(10)))

    assert refusal.error_id == "TIDE-BACK-011"
    assert sorted(map(str, orders.lake.rows("silver/by_id"))) == before


@pytest.mark.parametrize(
    ("window", "sink"),
    [
        ('"5 minutes"', {}),
        pytest.param(
            '"10 minutes", "5 minutes"', {"mode": "merge", "key": ["id", "start"]}, marks=pytest.mark.soak
        ),
    ],
    ids=["tumbling_append", "sliding_merge"],
)
def test_whole_windows_are_computed_again_beside_the_stream(
    orders: Orders, window: str, sink: dict[str, Any]
) -> None:
    sinks = [{"delta": {"table": "silver/windows", **sink}}]
    pipeline = orders.pipeline("windows", WINDOWS.format(window=window), sinks=sinks)
    orders.send(60)
    pipeline.run_incremental()
    plan = pipeline.plan(at(10), at(30))
    assert (plan.by, plan.at_seam) == ("window", True)
    before = {row for row in windows_of(orders) if row[1] < START + timedelta(minutes=30)}
    orders.delete("silver/windows", f"start >= '{at(10)}' AND start < '{at(30)}'")
    orders.send(60)

    pipeline.apply(plan, once(pipeline.run_incremental))

    after = windows_of(orders)
    assert {row for row in after if row[1] < START + timedelta(minutes=30)} == before
    assert len(after) == len({row[:2] for row in after})
    assert max(row[1] for row in after) >= START + timedelta(minutes=100)


def test_two_pipelines_on_one_table_do_not_replace_each_others_rows(orders: Orders) -> None:
    sinks = [{"delta": {"table": "silver/both"}}]
    paid = orders.pipeline("paid", FILTER, sinks=sinks)
    rest = orders.pipeline("rest", FILTER.replace("> 0", "<= 0"), sinks=sinks)
    orders.send(10)
    orders.send(10, price=-1.0)
    paid.run_incremental()
    rest.run_incremental()
    before = orders.places("silver/both")
    assert len(before) == 20

    refusal = refused(lambda: paid.plan(at(0), at(20)))

    assert (refusal.error_id, refusal.facts["other_pipeline"]) == ("TIDE-BACK-015", "rest")
    assert orders.places("silver/both") == before


def test_a_stream_that_begins_at_the_end_leaves_its_past_to_a_backfill(orders: Orders) -> None:
    """The seam lies where the checkpoint was born, before the stream has written anything."""
    orders.send(20)
    pipeline = orders.pipeline(
        "paid", FILTER, source={"kafka": {"topic": orders.topic, "starting_offsets": "latest"}}
    )
    pipeline.run_incremental()
    orders.send(10)
    plan = pipeline.plan("2020-01-01", "2030-01-01")
    pipeline.run_incremental()

    pipeline.apply(plan)

    assert plan.records == 20
    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 30


def test_a_table_of_other_columns_is_refused_before_anything_is_written(orders: Orders) -> None:
    pipeline = orders.pipeline("paid", sinks=[{"delta": {"table": "bronze/paid"}}])
    orders.send(10, without="note")
    pipeline.run_incremental()
    orders.lake.schema("order.json", {**SCHEMA, "price": {"type": "string"}}, ["id", "at", "note"])

    with pytest.raises(DataError) as refusal:
        pipeline.backfill("2020-01-01", "2030-01-01")

    assert refusal.value.error_id == "TIDE-SINK-001"
    assert (len(orders.lake.rows("bronze/paid")), orders.lake.quarantined("paid")) == (10, [])


@pytest.mark.soak
def test_a_stream_begins_at_a_moment_of_the_brokers_time(orders: Orders) -> None:
    """Spark prefers such options over offsets, but a backfill of the rest must not begin there."""
    orders.send(10)
    # The producers' clock is this machine's, in milliseconds.
    start = {"topic": orders.topic, "starting_offsets": datetime.now(UTC) + timedelta(milliseconds=1)}
    pipeline = orders.pipeline("paid", FILTER, source={"kafka": start})
    orders.send(10)
    pipeline.run_incremental()
    assert sorted(row["at"].minute for row in orders.lake.rows("silver/paid")) == list(range(10, 20))

    pipeline.backfill("2020-01-01", "2030-01-01")

    assert sorted(row["at"].minute for row in orders.lake.rows("silver/paid")) == list(range(20))


@pytest.mark.parametrize("window", ["10 minutes", "5 minutes"])
def test_a_declared_window_must_be_the_transforms(orders: Orders, window: str) -> None:
    event_time = {**EVENT_TIME, "window": window}
    pipeline = orders.pipeline("windows", WINDOWS.format(window='"5 minutes"'), event_time=event_time)
    orders.send(5)
    if window == "5 minutes":
        pipeline.run_incremental()
        return
    with pytest.raises(SpecError) as refusal:
        pipeline.run_incremental()
    assert refusal.value.error_id == "TIDE-SPEC-042"


def test_rows_outside_of_the_range_are_refused(orders: Orders) -> None:
    """Without proof, rows of a pipeline that never ran are replaced by time; a transform must not move it."""
    moved = "def transform(orders):\n    return orders.selectExpr('id', \"at + INTERVAL 1 DAY AS at\")\n"
    pipeline = orders.pipeline("moved", moved)
    orders.send(10)
    with pytest.raises(DataError) as refusal:
        pipeline.backfill(at(0), at(10))
    assert refusal.value.error_id == "TIDE-BACK-014"


def test_a_plan_is_carried_out_as_it_was_made_or_not_at_all(orders: Orders) -> None:
    pipeline = orders.pipeline("paid", FILTER)
    orders.send(10)
    pipeline.run_incremental()
    plan = pipeline.plan(at(0), at(10))
    before = orders.places("silver/paid")
    changed = orders.pipeline("paid", FILTER.replace("> 0", "> 5"))

    with pytest.raises(UsageError) as refusal:
        changed.apply(plan)

    assert refusal.value.error_id == "TIDE-BACK-016"
    assert orders.places("silver/paid") == before
