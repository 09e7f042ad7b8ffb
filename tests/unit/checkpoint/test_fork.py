"""A fork gets its own checkpoint and tables, and shares nothing with the original."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.commits import TABLE
from tests.support.declared import declared
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.read import read_commits
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to

COPY = "bronze/orders_copy"
STEPS = ("write checkpoint", f"table {COPY}", "switch generation")


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(5)


def fork_of(orders: PipelineOnDisk, name: str = "shadow", **keys: Any) -> Pipeline:
    keys = {"sinks": [{"delta": {"table": COPY}}], **keys}
    return declared(orders.place.folder, name, dict(orders.place.keys), **keys)


def plan(orders: PipelineOnDisk, fork: Pipeline, batch_id: int | None = None) -> dict[str, Any]:
    return plan_fork(orders.store, (orders.resolved, fork), batch_id, lambda facts, _: (facts, "away"))


def make_fork(orders: PipelineOnDisk, batch_id: int | None = None, kill_at: str = "") -> Pipeline:
    fork, layout = fork_of(orders), orders.resolved.layout
    request = Request("fork", fork.name, "fork-1", "ann", "because")
    planned = plan_of(orders.store, layout, request, lambda: plan(orders, fork, batch_id))
    steps = fork_steps(orders.store, (orders.resolved, fork), request, planned)

    def verify() -> None:
        live = read_current(orders.store, layout, fork.name)
        assert live is not None
        check(gather_facts(orders.store, fork, live.generation))

    carry_out(orders.store, layout, procedure_of(request, planned, steps), verify, killed_at(kill_at))
    return fork


def copied(fork: Pipeline, column: str) -> list[Any]:
    """Return one column of the add actions in the log of the fork's table."""
    path = fork.layout.table(COPY)
    table = DeltaTable(path, storage_options=access_to(path).delta_options())
    found: list[Any] = table.get_add_actions().column(column).to_pylist()
    return found


def rows(fork: Pipeline) -> int:
    return sum(copied(fork, "num_records"))


def test_a_fork_stands_where_the_original_stood(orders: PipelineOnDisk) -> None:
    fork = make_fork(orders, 2)
    assert rows(fork) == 30
    batches = CheckpointBatches(orders.store, fork.layout.checkpoint("shadow", "g0001"))
    assert (batches.commit_ids(), batches.planned(2)) == (
        [0, 1, 2],
        CheckpointBatches(orders.store, f"{orders.state}/g0001").planned(2),
    )
    assert batches.query_id() not in (None, "2f1c")
    live = read_current(orders.store, fork.layout, "shadow")
    assert live is not None
    assert live.base is not None
    assert (live.generation, live.base.batch_id, live.base.lineage) == ("g0001", 2, {})
    assert live.base.tables[COPY].version == 1


def test_the_original_is_left_as_it_is(orders: PipelineOnDisk) -> None:
    before = orders.files, read_commits(orders.table)
    make_fork(orders)
    assert (orders.files, read_commits(orders.table)) == before
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []


def test_a_vacuum_of_the_original_takes_nothing_from_the_fork(orders: PipelineOnDisk) -> None:
    fork = make_fork(orders)
    orders.compact()
    table = DeltaTable(orders.table, storage_options=orders.table_options)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    names = copied(fork, "path")
    there = {file.path for file in orders.store.list_files(fork.layout.table(COPY))}
    assert len(names) == 5
    assert {f"{fork.layout.table(COPY)}/{name}" for name in names} <= there


@pytest.mark.parametrize("moment", ["hold", "journal", *STEPS, "verify", "audit", "close"])
def test_killed_at_any_moment_and_repeated_it_ends_the_same(orders: PipelineOnDisk, moment: str) -> None:
    with pytest.raises(Killed):
        make_fork(orders, 3, kill_at=moment)
    fork = make_fork(orders, 3)
    assert rows(fork) == 40
    assert read_holds(orders.store, fork.layout, "shadow") == []
    assert [c.operation for c in read_commits(fork.layout.table(COPY))] == ["WRITE", "CREATE TABLE"]
    newest = read_commits(fork.layout.table(COPY))[0]
    assert newest.entry is not None
    assert (newest.entry.mode, newest.entry.batch_id, newest.entry.pipeline) == ("base", 3, "shadow")


@pytest.mark.parametrize(
    ("keys", "because"),
    [
        ({"sinks": [{"delta": {"table": TABLE}}]}, f"both write {TABLE}"),
        ({"source": {"kafka": {"topic": "returns"}}}, "the sources differ"),
        (
            {"sinks": [{"delta": {"table": COPY, "mode": "merge", "key": ["id"]}}]},
            f"tables and modes differ: {TABLE} (append) and {COPY} (merge)",
        ),
        ({"sinks": [{"console": {}}]}, f"tables and modes differ: {TABLE} (append) and none"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(
    orders: PipelineOnDisk, keys: dict[str, Any], because: str
) -> None:
    with pytest.raises(UsageError) as refused:
        plan(orders, fork_of(orders, **keys))
    assert (refused.value.error_id, refused.value.facts["because"]) == ("TIDE-CKPT-079", because)


def test_a_pipeline_is_no_fork_of_itself(orders: PipelineOnDisk) -> None:
    with pytest.raises(UsageError) as refused:
        plan(orders, orders.resolved)
    assert refused.value.error_id == "TIDE-CKPT-079"


def test_what_is_in_the_forks_place_is_not_overwritten(orders: PipelineOnDisk) -> None:
    fork = make_fork(orders)
    with pytest.raises(GateRefusedError) as refused:
        plan(orders, fork)
    assert refused.value.error_id == "TIDE-CKPT-080"
    assert refused.value.facts["there"] == f"generation g0001, {COPY}"


def test_a_batch_that_is_not_held_is_refused(orders: PipelineOnDisk) -> None:
    with pytest.raises(GateRefusedError) as refused:
        plan(orders, fork_of(orders), 9)
    assert refused.value.error_id == "TIDE-CKPT-070"
