"""Reset: a new generation that begins where one says, with gap and overlap spelled out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import pipelines_on_disk
from tests.support.commits import TABLE, commit_of
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import BaseTable, Current, read_current, switch_generation
from tidemill.checkpoint.gate import CheckpointFacts, TopicFacts, check, gather_facts
from tidemill.checkpoint.gate.facts import SourceFacts
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.beginning import (
    Beginning,
    ReadBefore,
    check_unread,
    compare,
    left_and_repeated,
)
from tidemill.checkpoint.verbs.prospect import AskBroker
from tidemill.checkpoint.verbs.read_before import read_before, read_on, stands
from tidemill.checkpoint.verbs.reset import Wanted, plan_reset, reset_steps
from tidemill.checkpoint.verbs.tables import read_tables
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.entry import OffsetRange
from tidemill.ledger.read import transaction_version
from tidemill.ledger.table_restore import CLOSED, restore_through_delta_rs
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.spec.project import Pipeline

Offsets = dict[str, dict[str, int]]
MOMENTS = (
    *("hold", "journal", "epoch", "write checkpoint", f"table {TABLE}"),
    *("switch generation", "verify", "audit", "close"),
)


def compared(start: Offsets, *ends: Offsets, now: TopicFacts | None = None) -> list[dict[str, Any]]:
    read = {f"bronze/t{number}": ReadBefore(end, {"orders": "old"}) for number, end in enumerate(ends)}
    return compare(Beginning(start), read, [] if now is None else [now])


def test_the_plan_spells_out_gap_and_overlap_of_each_partition() -> None:
    rows = compared({"orders": {"0": 120, "1": 30, "2": 7}}, {"orders": {"0": 100, "1": 40}})
    counts = [(row["partition"], row["never_read"], row["read_again"]) for row in rows]
    assert counts == [("0", 20, 0), ("1", 0, 10), ("2", 0, 0)]


def test_tables_that_stand_at_different_batches_are_told_apart() -> None:
    rows = compared({"orders": {"0": 50}}, {"orders": {"0": 60}}, {"orders": {"0": 40}})
    counts = [(row["table"], row["never_read"], row["read_again"]) for row in rows]
    assert counts == [("bronze/t0", 0, 10), ("bronze/t1", 10, 0)]


def test_partitions_come_in_the_order_of_their_numbers() -> None:
    offsets = {"orders": {str(number): 5 for number in range(12)}}
    assert [row["partition"] for row in compared(offsets, offsets)] == [*map(str, range(12))]


def topic(topic_id: str, *oldest: int) -> TopicFacts:
    """Return a topic that begins there, and has 60 records in each partition."""
    first = {str(number): offset for number, offset in enumerate(oldest)}
    return TopicFacts(
        {"orders": first}, {"orders": {p: o + 60 for p, o in first.items()}}, {"orders": topic_id}
    )


@pytest.mark.parametrize(
    ("begins", "now", "never_read"),
    [
        ({"0": 50, "1": 25}, topic("old", 0, 5), 20),
        ({"0": 50, "1": 5}, topic("old", 0, 5), 0),
        ({"0": 12, "1": 0}, topic("new", 0, 0), 12),
        ({"0": 50, "1": 5}, topic("new", 0, 5), 50),
        ({"0": 70, "1": 70}, topic("new", 70, 70), 0),
        ({"0": 30, "1": 0}, TopicFacts({"orders": {"0": 0, "1": 0}}, {"orders": {"0": 30, "1": 0}}), 30),
    ],
    ids=[
        "a new partition",
        "from its oldest",
        "made again",
        "a mirror",
        "moved",
        "made again, without an id",
    ],
)
def test_what_no_table_has_read_is_unread_from_the_oldest_record(
    begins: dict[str, int], now: TopicFacts, never_read: int
) -> None:
    rows = compared({"orders": begins}, {"orders": {"0": 50}}, now=now)
    assert left_and_repeated(rows)["never_read"] == never_read


@pytest.mark.parametrize(("now", "again", "if_copied"), [("old", 50, 0), ("new", 0, 50)])
def test_records_of_a_recreated_topic_are_read_again_only_if_they_were_copied(
    now: str, again: int, if_copied: int
) -> None:
    rows = compared({"orders": {"0": 0}}, {"orders": {"0": 50}}, now=topic(now, 0))
    counts = left_and_repeated(rows)
    assert (counts["never_read"], counts["read_again"], counts["read_again_if_copied"]) == (
        0,
        again,
        if_copied,
    )


def test_where_nothing_says_how_far_was_read_somebody_must_agree() -> None:
    rows = compare(Beginning({"orders": {"0": 50}}), {"checkpoint g0001": ReadBefore({})})
    with pytest.raises(UsageError) as refused:
        check_unread("orders", {"partitions": rows, "never_read": 0})
    assert (refused.value.error_id, refused.value.facts["partitions"]) == (
        "TIDE-CKPT-104",
        "orders-0 None -> 50",
    )


@pytest.mark.parametrize(
    ("ranges", "reached"),
    [
        ([], 0),
        ([(0, 20)], 20),
        ([(10, 20)], 0),
        ([(5, 20), (0, 5)], 20),
        ([(0, 20), (5, 10)], 20),
        ([(0, 5), (6, 20)], 5),
    ],
)
def test_backfills_of_a_table_without_a_batch_count_as_read_up_to_the_first_gap(
    ranges: list[tuple[int, int]], reached: int
) -> None:
    entries = [
        commit_of(0).entry.model_copy(
            update={"sources": {"source": OffsetRange(start=at(start), end=at(end))}}
        )
        for start, end in ranges
    ]
    assert read_on(at(0), entries) == at(reached)


def at(offset: int) -> Offsets:
    return {"orders": {"0": offset}}


def test_a_record_that_two_tables_lack_counts_once() -> None:
    rows = compared({"orders": {"0": 50}}, {"orders": {"0": 40}}, {"orders": {"0": 45}})
    assert left_and_repeated(rows)["never_read"] == 10


def test_a_partition_without_a_beginning_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        compared({"orders": {"0": 5}}, {"orders": {"0": 5, "1": 9}})
    assert (refused.value.error_id, refused.value.facts["missing"]) == ("TIDE-CKPT-043", "orders-1")


def test_a_pipeline_that_never_ran_has_nothing_to_reset(store_place: StorePlace) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of_reset(PipelineOnDisk(store_place))
    assert refused.value.error_id == "TIDE-CKPT-041"


@pytest.mark.parametrize(
    "known",
    [{"asked": True}, {"topics": frozenset({"orders"})}],
    ids=["the broker names all", "another topic"],
)
def test_a_partition_that_is_not_there_any_more_needs_no_beginning(known: dict[str, Any]) -> None:
    ends = {"orders": {"0": 10}, "old": {"0": 7}}
    rows = compare(Beginning({"orders": {"0": 10}}, **known), {TABLE: ReadBefore(ends)})
    counts = {row["topic"]: (row["gone"], row["never_read"], row["read_again"]) for row in rows}
    assert counts == {"old": (True, 0, 0), "orders": (False, 0, 0)}


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(3)


def nobody(facts: CheckpointFacts, _: Pipeline) -> tuple[CheckpointFacts, str]:
    """No broker answers."""
    return facts, "away"


def plan_of_reset(orders: PipelineOnDisk, ask: AskBroker = nobody) -> dict[str, Any]:
    start = {"orders": {"0": 17}}
    begins = Wanted({"source": start})
    return plan_reset(orders.store, orders.resolved, begins, ask)


def reset(orders: PipelineOnDisk, kill_at: str = "", ask: AskBroker = nobody) -> None:
    layout = orders.resolved.layout
    request = Request("reset", "orders", "reset-1", "ann", "because")
    plan = plan_of(orders.store, layout, request, lambda: plan_of_reset(orders, ask))
    steps = reset_steps(orders.store, orders.resolved, request, plan, restore_through_delta_rs)

    def verify() -> None:
        check(gather_facts(orders.store, orders.resolved, orders.live))

    carry_out(orders.store, layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))


def test_without_a_table_the_checkpoint_says_how_far_was_read(store_place: StorePlace) -> None:
    orders = PipelineOnDisk(store_place).ran(3)
    for name in orders.store.list_files(orders.table):
        orders.store.delete(name.path)
    (row,) = plan_of_reset(orders)["partitions"]
    assert (row["table"], row["stands_at"], row["begins_at"]) == (TABLE, 30, 17)


def test_a_second_reset_before_the_first_batch_still_knows_that_the_topic_is_another(
    store_place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def old_topic(batch_id: int, **keys: Any) -> BatchCommit:
        commit = commit_of(batch_id, **keys)
        read = commit.entry.sources["source"].model_copy(update={"topic_ids": {"orders": "old"}})
        return replace(commit, entry=commit.entry.model_copy(update={"sources": {"source": read}}))

    monkeypatch.setattr(pipelines_on_disk, "commit_of", old_topic)
    orders = PipelineOnDisk(store_place).ran(3)
    reset(orders, ask=lambda facts, _: (replace(facts, source=SourceFacts(topics=topic("new", 0))), ""))
    base = stands(read_tables(orders.resolved)[TABLE], "orders")
    assert base is not None
    assert (base.mode, base.topic_ids) == ("base", {"orders": "new"})
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    read = read_before(orders.store, orders.resolved, live, read_tables(orders.resolved))
    assert read[TABLE].is_of_another("orders", topic("new", 0))


def test_without_a_finished_batch_a_generation_has_read_what_comes_before_its_beginning(
    orders: PipelineOnDisk,
) -> None:
    reset(orders)
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert read_before(orders.store, orders.resolved, live, {})[TABLE].ends == {"orders": {"0": 17}}


def test_the_plan_says_where_the_table_stands(orders: PipelineOnDisk) -> None:
    plan = plan_of_reset(orders)
    assert (plan["parent"], plan["number"], plan["unanswered"]) == ("g0001", 2, "away")
    assert (plan["never_read"], plan["read_again"]) == (0, 13)
    table = plan["tables"][TABLE]
    assert (table["version"], table["to"], table["closes"]) == (3, 3, [f"orders:g0001:{TABLE}"])


def test_a_reset_makes_a_generation_without_batches_that_begins_there(orders: PipelineOnDisk) -> None:
    reset(orders)
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert (live.generation, live.number, live.by, live.request_id) == ("g0002", 2, "ann", "reset-1")
    assert live.base is not None
    assert (live.base.generation, live.base.batch_id, live.base.lineage) == ("g0001", None, {})
    assert live.base.tables == {TABLE: BaseTable(id=orders.table_id, version=3)}
    batches = CheckpointBatches(orders.store, f"{orders.state}/g0002")
    assert (batches.last_planned(), batches.last_committed()) == (None, None)
    assert batches.initial_offset() == {"orders": {"0": 17}}
    assert batches.query_id() not in (None, "2f1c")
    assert orders.store.read(f"{orders.state}/g0002/sources/0/0") == b'\0v1\n{"orders":{"0":17}}'


def test_the_old_side_is_closed_and_the_new_one_writes_from_batch_0(orders: PipelineOnDisk) -> None:
    reset(orders)
    assert transaction_version(orders.table, transaction_id("orders", "g0001", TABLE)) == CLOSED
    assert orders.ids == list(range(30))
    orders.ran_on(0, 2, generation="g0002")
    assert sorted(orders.ids) == sorted([*range(30), *range(20)])
    check(gather_facts(orders.store, orders.resolved, "g0002"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_anywhere_and_repeated_a_reset_comes_to_the_same_end(
    orders: PipelineOnDisk, moment: str
) -> None:
    with pytest.raises(Killed):
        reset(orders, moment)
    assert [hold.id for hold in read_holds(orders.store, orders.resolved.layout, "orders")] == ["reset-1"]
    reset(orders)
    names = [name for name in orders.files if name.startswith(orders.live)]
    assert names == [f"{orders.live}/metadata", f"{orders.live}/sources/0/0"]
    assert CheckpointBatches(orders.store, f"{orders.state}/g0001").last_committed() == 2
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    assert unfinished(orders.store, orders.resolved.layout, "orders") is None


def test_a_generation_that_was_changed_meanwhile_is_not_overwritten(orders: PipelineOnDisk) -> None:
    with pytest.raises(Killed):
        reset(orders, f"table {TABLE}")
    other = Current(pipeline="orders", generation="g0001", number=2, why="a test", by="bob")
    assert switch_generation(orders.store, orders.resolved.layout, other)
    with pytest.raises(GateRefusedError) as refused:
        reset(orders)
    assert (refused.value.error_id, refused.value.facts["by"]) == ("TIDE-CKPT-042", "bob")
