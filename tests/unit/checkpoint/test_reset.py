"""Reset: a new generation that begins where one says, with gap and overlap spelled out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.commits import TABLE
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import Current, next_generation, read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.reset import ResetFacts, plan_reset, reset_steps
from tidemill.checkpoint.verbs.table_points import TablePoint, table_points
from tidemill.errors import GateRefusedError, UsageError

LIVE = Current(pipeline="orders", generation="g0002", number=5, why="test")
MOMENTS = ("hold", "journal", "epoch", "write checkpoint", "switch generation", "verify", "audit", "close")


def planned(start: dict[str, dict[str, int]] | None, *ends: dict[str, dict[str, int]]) -> dict[str, Any]:
    points = tuple(TablePoint(f"bronze/t{n}", 7, 3, "g0002", {"source": end}) for n, end in enumerate(ends))
    return plan_reset(ResetFacts(LIVE, "g0003", start, points))


def test_the_plan_spells_out_gap_and_overlap_of_each_partition() -> None:
    plan = planned({"orders": {"0": 120, "1": 30, "2": 7}}, {"orders": {"0": 100, "1": 40}})
    told = [(row["partition"], row["never_read"], row["read_again"]) for row in plan["partitions"]]
    assert told == [("0", 20, 0), ("1", 0, 10), ("2", 0, 0)]
    assert (plan["never_read"], plan["read_again"]) == (20, 10)
    assert (plan["generation"], plan["parent"], plan["number"]) == ("g0003", "g0002", 6)


def test_tables_that_stand_at_different_batches_are_told_apart() -> None:
    plan = planned({"orders": {"0": 50}}, {"orders": {"0": 60}}, {"orders": {"0": 40}})
    told = [(row["table"], row["never_read"], row["read_again"]) for row in plan["partitions"]]
    assert told == [("bronze/t0", 0, 10), ("bronze/t1", 10, 0)]


def test_partitions_come_in_the_order_of_their_numbers() -> None:
    offsets = {"orders": {str(number): 5 for number in range(12)}}
    assert [row["partition"] for row in planned(offsets, offsets)["partitions"]] == [*map(str, range(12))]


def test_a_partition_without_a_beginning_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        planned({"orders": {"0": 5}}, {"orders": {"0": 5, "1": 9}})
    assert (refused.value.error_id, refused.value.facts["missing"]) == ("TIDE-CKPT-043", "orders-1")


def test_a_pipeline_that_never_ran_has_nothing_to_reset() -> None:
    with pytest.raises(UsageError) as refused:
        plan_reset(ResetFacts(None, "g0001", {"orders": {"0": 5}}))
    assert refused.value.error_id == "TIDE-CKPT-041"


@pytest.mark.parametrize(
    "known",
    [{"asked": True}, {"topics": frozenset({"orders"})}],
    ids=["the broker names all", "another topic"],
)
def test_a_partition_that_is_not_there_any_more_needs_no_beginning(known: dict[str, Any]) -> None:
    ends = {"orders": {"0": 10}, "old": {"0": 7}}
    points = (TablePoint(TABLE, 7, 3, "g0002", {"source": ends}),)
    plan = plan_reset(ResetFacts(LIVE, "g0003", {"orders": {"0": 10}}, points, **known))
    told = {row["topic"]: (row["gone"], row["never_read"], row["read_again"]) for row in plan["partitions"]}
    assert told == {"old": (True, 0, 0), "orders": (False, 0, 0)}


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(3)


def reset(orders: PipelineOnDisk, kill_at: str = "") -> None:
    layout = orders.resolved.layout
    request = Request("reset", "orders", "reset-1", "ann", "because")
    plan = plan_of(orders.store, layout, request, lambda: plan_reset(facts_of(orders)))
    steps = reset_steps(orders.store, layout, request, plan)

    def verify() -> None:
        check(gather_facts(orders.store, orders.resolved, orders.live))

    carry_out(orders.store, layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))


def facts_of(orders: PipelineOnDisk) -> ResetFacts:
    layout = orders.resolved.layout
    return ResetFacts(
        read_current(orders.store, layout, "orders"),
        next_generation(orders.store, layout, "orders"),
        {"orders": {"0": 17}},
        tuple(table_points(orders.resolved)),
    )


def test_the_table_says_where_the_pipeline_stands(orders: PipelineOnDisk) -> None:
    [point] = table_points(orders.resolved)
    assert (point.table, point.batch_id, point.generation, point.version) == (TABLE, 2, "g0001", 3)
    assert point.ends == {"source": {"orders": {"0": 30}}}


def test_a_reset_makes_a_generation_without_batches_that_begins_there(orders: PipelineOnDisk) -> None:
    reset(orders)
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert (live.generation, live.number, live.by, live.request_id) == ("g0002", 2, "ann", "reset-1")
    assert live.base is not None
    assert (live.base.generation, live.base.batch_id, live.base.tables) == ("g0001", None, {TABLE: 3})
    batches = CheckpointBatches(orders.store, f"{orders.state}/g0002")
    assert (batches.last_planned(), batches.last_committed()) == (None, None)
    assert batches.initial_offset() == {"orders": {"0": 17}}
    assert batches.query_id() not in (None, "2f1c")
    assert orders.store.read(f"{orders.state}/g0002/sources/0/0") == b'\0v1\n{"orders":{"0":17}}'


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_anywhere_and_repeated_a_reset_comes_to_the_same_end(
    orders: PipelineOnDisk, moment: str
) -> None:
    with pytest.raises(Killed):
        reset(orders, moment)
    assert [hold.id for hold in read_holds(orders.store, orders.resolved.layout, "orders")] == ["reset-1"]
    reset(orders)
    assert orders.live == "g0002"
    assert [name for name in orders.files if name.startswith("g0002")] == [
        "g0002/metadata",
        "g0002/sources/0/0",
    ]
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    assert unfinished(orders.store, orders.resolved.layout, "orders") is None


def test_a_generation_that_was_changed_meanwhile_is_not_overwritten(orders: PipelineOnDisk) -> None:
    layout = orders.resolved.layout
    request = Request("reset", "orders", "reset-1", "ann", "because")
    steps = reset_steps(orders.store, layout, request, plan_reset(facts_of(orders)))
    reset(orders)
    other = Request("reset", "orders", "reset-2", "bob", "because")
    late = reset_steps(orders.store, layout, other, plan_reset(facts_of(orders)) | {"number": 2})
    steps[1].act()
    with pytest.raises(GateRefusedError) as refused:
        late[1].act()
    assert (refused.value.error_id, refused.value.facts["by"]) == ("TIDE-CKPT-042", "ann")
