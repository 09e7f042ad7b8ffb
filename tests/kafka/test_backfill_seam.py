"""Backfills beside a stream that goes on: rows are replaced by what they prove, and no other row is touched.

The live stream commits at the worst moments: after the plan, and while the backfill is at work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record, send
from tests.support.lake import Lake, LakePipeline
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import read_progress
from tidemill.errors import DataError, FencedError, GateRefusedError, SpecError, UsageError
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.sources.offsets import KafkaOffsets

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {
    "id": {"type": "string"},
    "at": {"type": "string", "format": "date-time"},
    "price": {"type": "number"},
    "note": {"type": "string"},
}
EVENT_TIME = {"column": "at", "watermark": "1 minute"}

FILTER = """
def transform(orders):
    return orders.where("price > 0")
"""
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
WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    counts = orders.groupBy(F.window("at", {window}), "id").count()
    return counts.select("id", F.col("window.start").alias("start"), "count")
"""
# As an earlier version of the code read the time.
AN_HOUR_LATER = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.withColumn("at", F.col("at") + F.expr("INTERVAL 1 HOUR")).where("price > 0")
"""


class Orders:
    """A topic of orders, one a minute, and the pipelines that read it."""

    def __init__(self, folder: Path, spark: SparkSession, kafka: Kafka) -> None:
        self.lake = Lake(folder / "lake", spark, kafka.bootstrap_servers)
        self.requires("id", "at", "price")
        self.kafka = kafka
        self.topic = kafka.new_topic("orders", 2)
        self.sent: list[dict[str, Any]] = []

    def requires(self, *properties: str) -> None:
        """From now on a record without one of them is rejected."""
        self.lake.schema("order.json", SCHEMA, list(properties))

    def send(self, count: int, without: str = "", **changes: Any) -> None:
        """Orders of the next minutes; each id comes every fifth time."""
        first = len(self.sent)
        orders = [
            {"id": f"o{number % 5}", "at": at(number), "price": 1.0, "note": "", **changes}
            for number in range(first, first + count)
        ]
        self.sent += orders
        send(
            self.kafka.bootstrap_servers,
            self.topic,
            [
                Record(
                    json.dumps({k: v for k, v in order.items() if k != without}).encode(),
                    order["id"].encode(),
                )
                for order in orders
            ],
        )

    def pipeline(self, name: str, transform: str | None = None, **keys: Any) -> LakePipeline:
        code = {} if transform is None else {"transform": self.lake.transform(name, transform)}
        declaration = {
            "source": {"kafka": {"topic": self.topic}},
            "payload": {"json": {"schema": "order.json"}},
            "event_time": EVENT_TIME,
            "sinks": [{"delta": {"table": f"silver/{name}"}}],
            **code,
            **keys,
        }
        return self.lake.pipeline(
            name, **{key: value for key, value in declaration.items() if value is not None}
        )

    def all_offsets(self) -> dict[str, str]:
        """The bounds of all that was sent."""
        with KafkaOffsets(KafkaClient(self.kafka.bootstrap_servers)) as offsets:
            start, end = offsets.ranges([self.topic])
        return {"start_offsets": json.dumps(start), "end_offsets": json.dumps(end)}

    def places(self, table: str) -> list[tuple[int, int]]:
        """The records that rows are made of."""
        return sorted((row["kafka_partition"], row["kafka_offset"]) for row in self.lake.rows(table))

    def delete(self, table: str, condition: str) -> None:
        self.lake.spark.sql(f"DELETE FROM delta.`{self.lake.root}/tables/{table}` WHERE {condition}")


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Orders:
    return Orders(tmp_path, spark, kafka)


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def once(act: Callable[[], Any]) -> Callable[[str], None]:
    """At the first step: what the live stream does meanwhile."""
    waiting = [act]

    def step(_: str) -> None:
        if waiting:
            waiting.pop()()

    return step


def refused(plan: Callable[[], BackfillPlan]) -> UsageError:
    with pytest.raises(UsageError) as refusal:
        plan()
    return refusal.value


@pytest.mark.soak
@pytest.mark.parametrize("event_time", [EVENT_TIME, None], ids=["event_time", "none"])
def test_rows_of_a_filter_that_the_stream_adds_meanwhile_stay(
    orders: Orders, event_time: dict[str, str] | None
) -> None:
    """A transform, no windows: time alone would not tell the new rows from those of the range."""
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
    """The schema asks for no time. The second of them has none, too, and lies on the first one's side."""
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


class DiedError(Exception):
    """Stands for a driver that dies."""


def dies_at(*steps: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name in steps:
            raise DiedError(name)

    return step


def test_a_backfill_in_chunks_goes_on_with_those_that_are_left(orders: Orders) -> None:
    """Killed after a chunk, and in the next one when its rows are in the table, while the stream goes on."""
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
    # One a chunk, and one more of the chunk that was committed and not told.
    assert len(commits) == progress.chunks + 1
    assert len(orders.places("silver/paid")) == len(set(orders.places("silver/paid"))) == 50
    assert len(orders.lake.quarantined("paid")) == 4
    # Asked for again, it is done again as a whole; so is one whose first chunks somebody has taken back.
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


def windows_of(orders: Orders) -> list[tuple[str, datetime, int]]:
    rows = orders.lake.rows("silver/windows")
    return sorted((row["id"], row["start"], row["count"]) for row in rows)


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


@pytest.mark.parametrize(
    "by_offsets", [pytest.param(True, marks=pytest.mark.soak), False], ids=["offsets", "time"]
)
def test_a_record_is_in_the_table_or_in_quarantine_after_the_schema_has_changed(
    orders: Orders, by_offsets: bool
) -> None:
    """What is rejected now leaves the table, what is accepted now leaves the quarantine."""
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


def test_an_event_leaves_the_quarantine_once_its_window_counts_it(orders: Orders) -> None:
    """Of windows, only events in the range are in the table; others stay where they are."""
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
    """Orders of windows that are over, and orders that came too late for theirs."""
    late = [(row["partition"], row["offset"]) for row in orders.lake.late("windows")]
    assert len(late) == len(set(late))
    return sum(count for *_, count in windows_of(orders)), len(late)


def test_a_table_of_other_columns_is_refused_before_anything_is_written(orders: Orders) -> None:
    pipeline = orders.pipeline("paid", sinks=[{"delta": {"table": "bronze/paid"}}])
    orders.send(10, without="note")
    pipeline.run_incremental()
    orders.lake.schema("order.json", {**SCHEMA, "price": {"type": "string"}}, ["id", "at", "note"])

    with pytest.raises(DataError) as refusal:
        pipeline.backfill("2020-01-01", "2030-01-01")

    assert refusal.value.error_id == "TIDE-SINK-001"
    assert (len(orders.lake.rows("bronze/paid")), orders.lake.quarantined("paid")) == (10, [])


def test_a_stream_begins_at_a_moment_of_the_brokers_time(orders: Orders) -> None:
    """Spark gives such options precedence over offsets: a backfill of the rest must not begin there, too."""
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
