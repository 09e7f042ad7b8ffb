"""Rewind: tables, offsets and state go back together; killed anywhere and repeated, to the same end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.commits import TABLE, commit_of
from tests.support.pipelines_on_disk import COLUMNS, Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import BaseTable, read_current
from tidemill.checkpoint.gate import CheckpointFacts, TopicFacts, check, gather_facts
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.prospect import AskBroker
from tidemill.checkpoint.verbs.rewind import Target, parse_target, plan_rewind, rewind_steps
from tidemill.control.procedures.plan_words import rewind_lines
from tidemill.errors import FencedError, GateRefusedError, UsageError
from tidemill.ledger.read import read_commits, transaction_version
from tidemill.ledger.table_restore import CLOSED, restore_through_delta_rs
from tidemill.names import transaction_id
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline

STEPS = ("write checkpoint", f"table {TABLE}", "switch generation")
MOMENTS = ("hold", "journal", "epoch", *STEPS, "verify", "audit", "close")
NO_BROKER: AskBroker = lambda facts, _: (facts, "away")  # noqa: E731


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(5)


def a_broker(oldest: int) -> AskBroker:
    """Return a broker query whose oldest record has this offset."""

    def ask(facts: CheckpointFacts, _: Pipeline) -> tuple[CheckpointFacts, str]:
        topics = TopicFacts({"orders": {"0": oldest}}, {"orders": {"0": 1000}})
        return replace(facts, source=replace(facts.source, topics=topics)), ""

    return ask


def plan_of_rewind(
    orders: PipelineOnDisk, target: Target, ask_broker: AskBroker = NO_BROKER
) -> dict[str, Any]:
    return plan_rewind(orders.store, orders.resolved, target, ask_broker)


def rewind(orders: PipelineOnDisk, to: int | Target, kill_at: str = "", number: int = 1) -> dict[str, Any]:
    layout, target = orders.resolved.layout, to if isinstance(to, Target) else Target(to)
    request = Request("rewind", "orders", f"rewind-{number}", "ann", "because")
    plan = plan_of(orders.store, layout, request, lambda: plan_of_rewind(orders, target))
    steps = rewind_steps(orders.store, orders.resolved, request, plan, restore_through_delta_rs)

    def verify() -> None:
        check(gather_facts(orders.store, orders.resolved, orders.live))

    carry_out(orders.store, layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))
    return plan


def test_the_plan_says_what_goes(orders: PipelineOnDisk) -> None:
    plan = plan_of_rewind(orders, Target(batch_id=2))
    assert (plan["parent"], plan["live"], plan["batches_undone"]) == ("g0001", "g0001", [3, 4])
    table = plan["tables"][TABLE]
    assert (table["version"], table["to"], table["batches"], table["rows"]) == (5, 3, 2, 20)
    [told] = [line for line in rewind_lines({**plan, "files_stay": ["exports/a"]}) if "exports/a" in line]
    assert "rows of the undone batches stay" in told


def test_a_plan_changes_nothing(orders: PipelineOnDisk) -> None:
    before = orders.store.list_files(orders.state), orders.store.list_files(orders.table)
    plan_of_rewind(orders, Target(batch_id=2))
    assert (orders.store.list_files(orders.state), orders.store.list_files(orders.table)) == before


def test_checkpoint_and_table_go_back_together(orders: PipelineOnDisk) -> None:
    rewind(orders, 2)
    assert orders.ids == list(range(30))
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert live.base is not None
    assert (live.generation, live.request_id, live.base.batch_id) == ("g0002", "rewind-1", 2)
    assert (live.base.generation, live.base.lineage, live.base.tables[TABLE]) == (
        "g0001",
        {"g0001": 2},
        BaseTable(id=orders.table_id, version=3),
    )
    batches = CheckpointBatches(orders.store, f"{orders.state}/g0002")
    assert (batches.offset_ids(), batches.commit_ids()) == ([0, 1, 2], [0, 1, 2])
    assert batches.query_id() not in (None, "2f1c")
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    assert [entry.verb for entry in read_audit(orders.store, orders.resolved.layout)] == ["rewind"]


def test_the_next_batches_are_written_and_not_skipped(orders: PipelineOnDisk) -> None:
    rewind(orders, 2)
    orders.ran_on(3, 6, generation="g0002")
    assert orders.ids == list(range(60))
    check(gather_facts(orders.store, orders.resolved, "g0002"))


def test_the_old_generation_is_left_as_it_is(orders: PipelineOnDisk) -> None:
    before = [name for name in orders.files if name.startswith("g0001/")]
    rewind(orders, 0)
    assert [name for name in orders.files if name.startswith("g0001/")] == before


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_and_repeated_it_ends_the_same(orders: PipelineOnDisk, moment: str) -> None:
    layout = orders.resolved.layout
    with pytest.raises(Killed):
        rewind(orders, 2, kill_at=moment)
    assert read_holds(orders.store, layout, "orders")
    rewind(orders, 2)
    assert unfinished(orders.store, layout, "orders") is None
    assert read_holds(orders.store, layout, "orders") == []
    assert (orders.live, orders.ids) == ("g0002", list(range(30)))
    assert [c.operation for c in read_commits(orders.table)].count("RESTORE") == 1
    orders.ran_on(3, 4, generation="g0002")
    check(gather_facts(orders.store, orders.resolved, "g0002"))


@pytest.mark.parametrize("target", [Target(generation="g0001"), Target(4, generation="g0001")])
def test_a_rewind_is_undone_from_the_older_generation(orders: PipelineOnDisk, target: Target) -> None:
    rewind(orders, 1)
    orders.ran_on(2, 4, generation="g0002")
    plan = rewind(orders, target, number=2)
    assert (plan["parent"], plan["live"], plan["batches_undone"]) == ("g0001", "g0002", [2, 3])
    assert plan["tables"][TABLE]["returns"] == [2, 3, 4]
    assert (orders.live, orders.ids) == ("g0003", list(range(50)))
    orders.ran_on(5, 6, generation="g0003")
    check(gather_facts(orders.store, orders.resolved, "g0003"))


def test_rows_of_others_are_not_taken_back_to_undo_a_rewind(orders: PipelineOnDisk) -> None:
    rewind(orders, 1)
    orders.commit(9, pipeline="returns")
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(generation="g0001"))
    assert refused.value.error_id == "TIDE-CKPT-040"


def test_a_generation_that_never_was_is_refused(orders: PipelineOnDisk) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of_rewind(orders, Target(generation="g0009"))
    assert (refused.value.error_id, refused.value.facts["known"]) == ("TIDE-CKPT-045", "g0001")


def test_a_table_that_was_replaced_is_refused(orders: PipelineOnDisk) -> None:
    rewind(orders, 3)
    for file in orders.store.list_files(orders.table):
        orders.store.delete(file.path)
    orders.commit(0)
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(batch_id=2))
    assert (refused.value.error_id, refused.value.facts["table_id"]) == ("TIDE-CKPT-080", orders.table_id)


def test_a_second_rewind_goes_below_the_first(orders: PipelineOnDisk) -> None:
    rewind(orders, 3)
    orders.ran_on(4, 7, generation="g0002")
    plan = rewind(orders, 1, number=2)
    assert (plan["parent"], orders.live, plan["batches_undone"]) == ("g0002", "g0003", [2, 6])
    assert plan["tables"][TABLE]["batches"] == 5
    assert orders.ids == list(range(20))
    orders.ran_on(2, 4, generation="g0003")
    rewind(orders, 2, number=3)
    assert orders.ids == list(range(30))
    check(gather_facts(orders.store, orders.resolved, "g0004"))


def test_where_no_batch_goes_the_table_gets_no_restore(orders: PipelineOnDisk) -> None:
    plan = rewind(orders, 4)
    assert plan["batches_undone"] == []
    assert "RESTORE" not in [c.operation for c in read_commits(orders.table)]
    assert orders.ids == list(range(50))
    orders.ran_on(5, 6, generation="g0002")
    check(gather_facts(orders.store, orders.resolved, "g0002"))


@pytest.mark.parametrize("batch_id", [2, 4])
def test_a_driver_of_the_old_side_cannot_write_any_more(orders: PipelineOnDisk, batch_id: int) -> None:
    """It was fenced off, but after it had looked: what it still commits must not land."""
    zombie = TableLog(orders.table)
    zombie.create(COLUMNS)
    rewind(orders, batch_id)
    with pytest.raises(FencedError) as fenced:
        zombie.commit([], commit_of(5), COLUMNS)
    assert (fenced.value.error_id, fenced.value.facts["generation"]) == ("TIDE-RUN-003", "g0001")
    assert transaction_version(orders.table, transaction_id("orders", "g0001", TABLE)) == CLOSED
    assert orders.ids == list(range(10 * (batch_id + 1)))


def test_what_a_fenced_driver_wrote_after_the_plan_goes_too(orders: PipelineOnDisk) -> None:
    with pytest.raises(Killed):
        rewind(orders, 4, kill_at="epoch")
    orders.commit(5)
    rewind(orders, 4)
    assert orders.ids == list(range(50))


def test_a_batch_that_crashed_before_its_commit_file_is_undone(orders: PipelineOnDisk) -> None:
    orders.store.delete(f"{orders.state}/g0001/commits/4")
    plan = rewind(orders, 3)
    assert plan["batches_undone"] == [4, 4]
    assert orders.ids == list(range(40))


def test_maintenance_is_undone_and_counted(orders: PipelineOnDisk) -> None:
    orders.compact()
    plan = rewind(orders, 2)
    assert plan["tables"][TABLE]["maintenance"] == 1
    assert orders.ids == list(range(30))


def test_maintenance_before_the_first_undone_batch_stays(orders: PipelineOnDisk) -> None:
    orders.compact()
    orders.ran_on(5, 7)
    files = len(DeltaTable(orders.table, version=6, storage_options=orders.table_options).file_uris())
    plan = rewind(orders, 4)
    assert (plan["tables"][TABLE]["to"], plan["tables"][TABLE]["maintenance"]) == (6, 0)
    table = DeltaTable(orders.table, storage_options=orders.table_options)
    assert len(table.file_uris()) == files


def test_rows_of_another_pipeline_are_not_taken_back(orders: PipelineOnDisk) -> None:
    orders.commit(0, pipeline="returns")
    before = orders.files
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(batch_id=2))
    assert refused.value.error_id == "TIDE-CKPT-040"
    assert refused.value.facts["commits"] == ["6: WRITE by returns (stream)"]
    assert orders.files == before


def test_rows_that_others_wrote_after_the_plan_are_not_taken_back(orders: PipelineOnDisk) -> None:
    with pytest.raises(Killed):
        rewind(orders, 2, kill_at="write checkpoint")
    orders.commit(9, pipeline="returns")
    with pytest.raises(GateRefusedError) as refused:
        rewind(orders, 2)
    assert refused.value.error_id == "TIDE-CKPT-040"
    assert len(orders.ids) == 60
    assert orders.live == "g0001"


def test_where_no_batch_goes_others_may_write(orders: PipelineOnDisk) -> None:
    with pytest.raises(Killed):
        rewind(orders, 4, kill_at="write checkpoint")
    orders.commit(9, pipeline="returns")
    rewind(orders, 4)
    assert len(orders.ids) == 60


def test_a_batch_that_the_checkpoint_has_purged_is_refused(orders: PipelineOnDisk) -> None:
    for batch_id in (0, 1):
        for folder in ("offsets", "commits"):
            orders.store.delete(f"{orders.state}/g0001/{folder}/{batch_id}")
    for batch_id in (1, 2, 9):
        with pytest.raises(GateRefusedError) as refused:
            plan_of_rewind(orders, Target(batch_id=batch_id))
        assert (refused.value.error_id, refused.value.facts["held"]) == ("TIDE-CKPT-070", "3-4")
    assert plan_of_rewind(orders, Target(batch_id=3))["batch_id"] == 3


def test_records_that_the_broker_has_dropped_are_refused(orders: PipelineOnDisk) -> None:
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(batch_id=2), a_broker(oldest=31))
    assert (refused.value.error_id, refused.value.facts["cause"]) == ("TIDE-CKPT-075", "TIDE-CKPT-020")
    assert refused.value.facts["lost"] == {"orders-0": "30..30"}
    assert plan_of_rewind(orders, Target(batch_id=2), a_broker(oldest=30))["unanswered"] == ""


def test_a_broker_that_does_not_answer_is_told(orders: PipelineOnDisk) -> None:
    assert plan_of_rewind(orders, Target(batch_id=2))["unanswered"] == "away"


def test_data_files_that_vacuum_has_deleted_are_refused(orders: PipelineOnDisk) -> None:
    orders.compact()
    table = DeltaTable(orders.table, storage_options=orders.table_options)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(batch_id=2))
    assert (refused.value.error_id, refused.value.facts["version"]) == ("TIDE-CKPT-072", 3)


def test_state_that_is_gone_is_refused(orders: PipelineOnDisk) -> None:
    for version in (1, 2, 5):
        orders.store.write(f"{orders.state}/g0001/state/0/0/{version}.changelog", b"changes")
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(batch_id=2))
    assert (refused.value.error_id, refused.value.facts["cause"]) == ("TIDE-CKPT-075", "TIDE-CKPT-016")


def test_a_pipeline_that_never_ran_is_refused(store_place: StorePlace) -> None:
    with pytest.raises(UsageError) as refused:
        plan_of_rewind(PipelineOnDisk(store_place), Target(batch_id=0))
    assert refused.value.error_id == "TIDE-CKPT-076"


def test_a_moment_leaves_nothing_that_was_committed_after_it(orders: PipelineOnDisk) -> None:
    commits = {c.version: c.committed_at for c in read_commits(orders.table)}
    assert plan_of_rewind(orders, Target(moment=commits[3]))["batch_id"] == 2
    assert plan_of_rewind(orders, Target(moment=commits[5] + timedelta(hours=1)))["batch_id"] == 4
    with pytest.raises(GateRefusedError) as refused:
        plan_of_rewind(orders, Target(moment=commits[0] - timedelta(hours=1)))
    assert (refused.value.error_id, refused.value.facts["batch_id"]) == ("TIDE-CKPT-070", -1)


def test_a_version_means_the_batches_up_to_it(orders: PipelineOnDisk) -> None:
    orders.compact()
    assert plan_of_rewind(orders, Target(version=6))["batch_id"] == 4
    assert plan_of_rewind(orders, Target(version=3))["batch_id"] == 2


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("118", Target(batch_id=118)),
        ("v42", Target(version=42)),
        ("2026-11-20T14:00:00", parse_target("2026-11-20T14:00:00Z")),
        ("2026-11-20T15:00:00+01:00", parse_target("2026-11-20T14:00:00Z")),
    ],
)
def test_a_target_is_told_by_its_form(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "-1", "v", "v-1", "yesterday", "\uff11\uff12", "../x", "12; rm -rf /"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_target(text)
    assert refused.value.error_id == "TIDE-CKPT-074"
