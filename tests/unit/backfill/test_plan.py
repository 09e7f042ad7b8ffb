"""Tests of plans: their contents, their storage under a digest, and their expiry."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable

from tests.support.declared import declared
from tests.support.paper_batches import PaperBatches
from tests.support.paper_broker import PaperBroker
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.plan import BackfillPlan, TablePlan, load_plan
from tidemill.backfill.planning import plan_backfill
from tidemill.backfill.row_origin import EventWindow, RowOrigin, SinkOrigin, keep_origin
from tidemill.backfill.still_holds import check_still_holds, records_there
from tidemill.checkpoint.current import Base, Current, switch_generation
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.entry import OffsetRange
from tidemill.ledger.read import read_ledger
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

FILES = {"files": {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}}
EVENT_TIME = {"column": "at", "watermark": "10 minutes"}
DAY = ("2024-01-01", "2024-01-02")
IN_DAY = "`at` >= timestamp'2024-01-01 00:00:00.000000Z' AND `at` < timestamp'2024-01-02 00:00:00.000000Z'"
OFFSETS = (None, None, '{"orders": {"0": 5}}', '{"orders": {"0": 9}}')
FIVE = timedelta(minutes=5)
WINDOW = EventWindow(kind="tumbling", length=FIVE, slide=FIVE, start_columns=("window_start",))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "data"))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> PaperBroker:
    return PaperBroker({"orders": {0: (0, 100)}}, ids={"orders": "first"}).stand_in(monkeypatch)


def orders(folder: Path, **keys: Any) -> Pipeline:
    for part in ("data", "conf/pipelines"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    return declared(
        folder, "orders", environment={"root": str(folder / "data")}, **{"event_time": EVENT_TIME, **keys}
    )


def with_transform(folder: Path, store: Store, origin: RowOrigin, **keys: Any) -> Pipeline:
    """Return a pipeline whose transform was analysed before."""
    transforms = folder / "spark_apps/transforms"
    transforms.mkdir(parents=True, exist_ok=True)
    (transforms / "orders.py").write_text("def transform(orders):\n    return orders\n")
    pipeline = orders(folder, transform="orders:transform", **keys)
    keep_origin(store, pipeline, origin)
    return pipeline


def planned(store: Store, pipeline: Pipeline, *bounds: str | None) -> BackfillPlan:
    def analyse() -> None:
        raise AssertionError("nothing has to be analysed")

    return plan_backfill(store, pipeline, parse_bounds(*bounds), analyse)


def delta(**keys: Any) -> dict[str, Any]:
    return {"delta": {"table": "bronze/orders", **keys}}


def test_rows_of_files_are_chosen_and_replaced_by_their_time(tmp_path: Path, store: Store) -> None:
    pipeline = orders(tmp_path, source=FILES)
    assert planned(store, pipeline, *DAY) == BackfillPlan(
        pipeline="orders",
        definition=pipeline.definition_digest,
        bounds=parse_bounds(*DAY),
        by="time",
        condition=IN_DAY,
        tables=(TablePlan(table="bronze/orders", condition=IN_DAY),),
    )


def test_the_table_is_selected_by_the_column_that_the_sink_names(tmp_path: Path, store: Store) -> None:
    plan = planned(store, orders(tmp_path, source=FILES, sinks=[delta(time="ordered_at")]), *DAY)
    assert plan.condition == IN_DAY
    assert plan.tables[0].condition == IN_DAY.replace("`at`", "`ordered_at`")


def test_records_of_a_range_of_offsets_are_replaced_by_it(
    tmp_path: Path, store: Store, broker: PaperBroker
) -> None:
    plan = planned(store, orders(tmp_path), *OFFSETS)
    assert (plan.by, plan.records, plan.find_offsets_by) == ("record", 4, None)
    assert plan.topic_ids == {"orders": "first"}
    assert plan.tables[0].condition == (
        "(`kafka_topic` = 'orders' AND `kafka_partition` = 0 AND `kafka_offset` >= 5 AND `kafka_offset` < 9)"
    )


def test_each_table_is_selected_by_its_own_columns_for_the_record(
    tmp_path: Path, store: Store, broker: PaperBroker
) -> None:
    kept = SinkOrigin(columns={"kafka_topic": "t", "kafka_partition": "p", "kafka_offset": "o"})
    record = {name: name for name in kept.columns}
    sinks = [delta(), {"delta": {"table": "silver/orders", "transform": "orders:transform"}}]
    origin = RowOrigin(record=record, sinks={"silver/orders": kept})
    plan = planned(store, with_transform(tmp_path, store, origin, sinks=sinks), *OFFSETS)
    assert [table.record for table in plan.tables] == [record, kept.columns]
    assert plan.tables[1].condition == "(`t` = 'orders' AND `p` = 0 AND `o` >= 5 AND `o` < 9)"


def test_records_of_a_range_of_time_are_looked_for_up_to_the_seam(
    tmp_path: Path, store: Store, broker: PaperBroker
) -> None:
    pipeline = orders(tmp_path)
    for _ in range(3):
        PaperBatches(pipeline).run()
    plan = planned(store, pipeline, *DAY)
    assert (plan.find_offsets_by, plan.condition, plan.tables[0].condition) == ("at", None, None)
    assert (plan.end_offsets, plan.at_seam) == ({"orders": {"0": 30}}, True)
    assert plan.live == LiveSide(generation="g0001", batch_id=2, offsets={"orders": {"0": 30}})


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({}, "`window_start` >= timestamp'2024-01-01 00:00"),
        ({"start_columns": (), "struct_columns": ("w",)}, "`w`.`start` >= timestamp'2024-01-01 00:00"),
        ({"start_columns": (), "end_columns": ("e",)}, "`e` >= timestamp'2024-01-01 00:05"),
    ],
    ids=["start", "struct", "end"],
)
def test_windows_are_replaced_by_whatever_column_tells_them(
    tmp_path: Path, store: Store, columns: dict[str, Any], named: str
) -> None:
    window = WINDOW.model_copy(update=columns)
    pipeline = with_transform(tmp_path, store, RowOrigin(stateful=True, window=window), source=FILES)
    plan = planned(store, pipeline, *DAY)
    assert (plan.by, plan.condition) == ("window", IN_DAY)
    assert (plan.tables[0].condition or "").startswith(named)


def test_windows_that_overlap_need_events_of_after_the_range(tmp_path: Path, store: Store) -> None:
    sliding = WINDOW.model_copy(update={"kind": "sliding", "length": 3 * FIVE})
    pipeline = with_transform(tmp_path, store, RowOrigin(stateful=True, window=sliding), source=FILES)
    plan = planned(store, pipeline, *DAY)
    assert plan.condition == IN_DAY.replace("2024-01-02 00:00", "2024-01-02 00:10")
    assert (plan.tables[0].condition or "").endswith(
        "`window_start` < timestamp'2024-01-02 00:00:00.000000Z'"
    )


def test_topics_and_the_console_are_left_out(tmp_path: Path, store: Store) -> None:
    sinks = [delta(), {"kafka": {"topic": "alerts"}}, {"console": {}}]
    assert planned(store, orders(tmp_path, source=FILES, sinks=sinks), *DAY).left_out == (
        "kafka alerts",
        "console",
    )


def test_a_transform_that_nobody_has_analysed_is_analysed_first(tmp_path: Path, store: Store) -> None:
    pipeline = with_transform(tmp_path, store, RowOrigin(), source=FILES)
    (tmp_path / "spark_apps/transforms/orders.py").write_text(
        "def transform(orders):\n    return orders.alias('o')\n"
    )
    changed = orders(tmp_path, source=FILES, transform="orders:transform")
    assert changed.definition_digest != pipeline.definition_digest

    def analyse() -> None:
        keep_origin(store, changed, RowOrigin(stateful=True, window=WINDOW))

    assert plan_backfill(store, changed, parse_bounds(*DAY), analyse).by == "window"


def test_a_table_to_read_that_does_not_exist_is_refused(tmp_path: Path, store: Store) -> None:
    pipeline = orders(tmp_path, source={"delta": {"table": "bronze/raw"}})
    with pytest.raises(UsageError) as refused:
        planned(store, pipeline, *DAY)
    assert (refused.value.error_id, refused.value.facts["table"]) == ("TIDE-BACK-008", "bronze/raw")


def test_planning_writes_the_plan_and_nothing_else(tmp_path: Path, store: Store) -> None:
    plan = planned(store, orders(tmp_path, source=FILES), *DAY)
    assert [
        file.relative_to(tmp_path / "data") for file in (tmp_path / "data").rglob("*") if file.is_file()
    ] == [Path(f"backfills/orders-{plan.digest}/plan.json")]


def test_the_same_question_in_the_same_world_has_the_same_digest(tmp_path: Path, store: Store) -> None:
    pipeline = orders(tmp_path, source=FILES)
    assert planned(store, pipeline, *DAY).digest == planned(store, pipeline, *DAY).digest
    assert (
        planned(store, pipeline, "2024-01-01", "2024-01-03").digest != planned(store, pipeline, *DAY).digest
    )


def test_the_plan_is_told_line_by_line(tmp_path: Path, store: Store, broker: PaperBroker) -> None:
    pipeline = orders(tmp_path, sinks=[delta(), {"console": {}}])
    PaperBatches(pipeline).run()
    plan = planned(store, pipeline, *DAY)
    assert plan.lines() == [
        f"Backfill of orders, plan {plan.digest}",
        "  range     2024-01-01T00:00:00+00:00 to 2024-01-02T00:00:00+00:00",
        "  read      10 records, up to where the live stream goes on",
        "  records   from the first to the last whose `at` is in the range",
        "  rule      rows are replaced by the offsets of their records",
        "  replace   bronze/orders: the rows of these records",
        "  left out  console: not sent again",
    ]


def test_a_plan_is_found_by_its_digest(tmp_path: Path, store: Store, broker: PaperBroker) -> None:
    pipeline = orders(tmp_path)
    PaperBatches(pipeline).run()
    plan = planned(store, pipeline, *DAY)
    assert load_plan(store, pipeline.layout, "orders", plan.digest) == plan


@pytest.mark.parametrize("digest", ["0123456789ab", "../../../etc", "", "{{ 7*7 }}", "A" * 10_000])
def test_a_digest_of_no_plan_is_refused(tmp_path: Path, store: Store, digest: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_plan(store, orders(tmp_path).layout, "orders", digest)
    assert refused.value.error_id == "TIDE-BACK-016"


def test_a_plan_whose_file_was_changed_is_refused(tmp_path: Path, store: Store) -> None:
    pipeline = orders(tmp_path, source=FILES)
    plan = planned(store, pipeline, *DAY)
    file = Path(pipeline.layout.backfill_plan("orders", plan.digest))
    file.write_text(json.dumps({**json.loads(file.read_text()), "condition": None}))
    with pytest.raises(UsageError) as refused:
        load_plan(store, pipeline.layout, "orders", plan.digest)
    assert "changed" in str(refused.value.facts["because"])


@pytest.fixture
def live(tmp_path: Path, broker: PaperBroker) -> PaperBatches:
    """Return a pipeline of records that has run two batches."""
    batches = PaperBatches(orders(tmp_path))
    batches.run()
    batches.run()
    return batches


def void(store: Store, pipeline: Pipeline, plan: BackfillPlan) -> dict[str, object]:
    with pytest.raises(UsageError) as refused:
        check_still_holds(store, pipeline, plan)
    assert refused.value.error_id == "TIDE-BACK-016"
    return refused.value.facts


def test_a_plan_holds_while_the_live_stream_goes_on(store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    live.run()
    check_still_holds(store, live.pipeline, plan)
    records_there(live.pipeline, plan)


def test_a_plan_is_void_once_the_code_has_changed(tmp_path: Path, store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    changed = orders(tmp_path, event_time={"column": "at", "watermark": "1 hour"})
    assert void(store, changed, plan)["now"] == changed.definition_digest


def test_a_plan_is_void_while_somebody_holds_the_pipeline(store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    take_hold(store, live.pipeline.layout, "orders", Hold(id="rewind-1", by="ann", why="rewind"))
    assert void(store, live.pipeline, plan)["hold"] == "rewind-1"


def test_a_plan_is_void_in_another_generation(store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    record = Current(
        number=2, pipeline="orders", generation="g0002", why="reset", base=Base(generation="g0001", tables={})
    )
    switch_generation(store, live.pipeline.layout, record)
    live.run()
    facts = void(store, live.pipeline, plan)
    assert (facts["before"], facts["now"]) == ("g0001", "g0002")


def test_a_plan_made_before_the_first_start_is_void_after_it(
    tmp_path: Path, store: Store, broker: PaperBroker
) -> None:
    pipeline = orders(tmp_path)
    plan = planned(store, pipeline, *DAY)
    PaperBatches(pipeline).run()
    facts = void(store, pipeline, plan)
    assert (facts["before"], facts["now"]) == (None, "g0001")


def test_a_plan_is_void_after_a_restore_by_hand(store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    DeltaTable(live.pipeline.layout.table("bronze/orders")).restore(1)
    with pytest.raises(GateRefusedError) as refused:
        check_still_holds(store, live.pipeline, plan)
    assert refused.value.error_id == "TIDE-CKPT-005"


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"ids": {"orders": "second"}}, "a topic was deleted and made again"),
        ({"topics": {"orders": {}}}, "the broker no longer has its records"),
    ],
)
def test_a_plan_is_void_without_its_records(
    store: Store, live: PaperBatches, broker: PaperBroker, change: dict[str, Any], because: str
) -> None:
    plan = planned(store, live.pipeline, *DAY)
    for name, value in change.items():
        setattr(broker, name, value)
    with pytest.raises(UsageError) as refused:
        records_there(live.pipeline, plan)
    assert (refused.value.error_id, refused.value.facts["because"]) == ("TIDE-BACK-016", because)


def test_of_a_range_of_time_older_records_may_go_meanwhile(
    store: Store, live: PaperBatches, broker: PaperBroker
) -> None:
    """The remaining records decide, as in a new plan. For a range of offsets, all records must remain."""
    by_time, by_offsets = planned(store, live.pipeline, *DAY), planned(store, live.pipeline, *OFFSETS)
    broker.topics = {"orders": {0: (7, 100)}}
    assert records_there(live.pipeline, by_time) == {"orders": {"0": 7}}
    with pytest.raises(UsageError) as refused:
        records_there(live.pipeline, by_offsets)
    assert refused.value.facts["because"] == "the broker no longer has its records"


def commit_entry(written: Pipeline, **changes: Any) -> None:
    """Commit an entry that differs from the newest one in these fields."""
    path = written.layout.table("bronze/orders")
    newest, table = read_ledger(path)[0].entry, DeltaTable(path)
    assert newest is not None
    note = {"userMetadata": newest.model_copy(update=changes).to_text()}
    properties = CommitProperties(custom_metadata=note)
    table.create_write_transaction([], "append", table.schema(), [], commit_properties=properties)


def test_a_plan_is_refused_once_another_pipeline_writes_the_table(store: Store, live: PaperBatches) -> None:
    plan = planned(store, live.pipeline, *DAY)
    commit_entry(live.pipeline, pipeline="payments")
    with pytest.raises(UsageError) as refused:
        check_still_holds(store, live.pipeline, plan)
    assert (refused.value.error_id, refused.value.facts["other_pipeline"]) == ("TIDE-BACK-015", "payments")


@pytest.mark.parametrize("now", [{"ids": {"orders": "second"}}, {"cluster": "another"}])
def test_rows_of_a_former_topic_are_not_replaced_by_those_of_the_new_one(
    store: Store, live: PaperBatches, broker: PaperBroker, now: dict[str, Any]
) -> None:
    """After a reset the gate is content; the same offsets are other records all the same."""
    read = OffsetRange(
        start={"orders": {"0": 10}}, end={"orders": {"0": 20}}, topic_ids={"orders": "first"}, cluster="one"
    )
    commit_entry(live.pipeline, sources={"source": read})
    assert planned(store, live.pipeline, *DAY).by == "record"
    for name, value in now.items():
        setattr(broker, name, value)
    with pytest.raises(UsageError) as refused:
        planned(store, live.pipeline, *DAY)
    assert refused.value.error_id == "TIDE-BACK-017"


def test_windows_of_files_that_are_gone_are_not_computed_from_the_rest(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = LiveSide(generation="g0001", batch_id=1, closed_until=datetime(2024, 1, 3, tzinfo=UTC))
    monkeypatch.setattr("tidemill.backfill.planning.read_live_side", lambda *_: closed)
    pipeline = with_transform(tmp_path, store, RowOrigin(window=WINDOW), source=FILES)
    log = Path(pipeline.layout.checkpoint("orders", "g0001")) / "sources/0/0"
    landed = tmp_path / "data/landing/orders/1.json"
    for file in (log, landed):
        file.parent.mkdir(parents=True)
    entry = {"path": landed.as_uri(), "timestamp": 0, "batchId": 0}
    log.write_text(f"v1\n{json.dumps(entry)}")
    landed.touch()
    assert planned(store, pipeline, *DAY).by == "window"
    landed.unlink()
    with pytest.raises(UsageError) as refused:
        planned(store, pipeline, *DAY)
    assert (refused.value.error_id, refused.value.facts["count"]) == ("TIDE-BACK-008", 1)
