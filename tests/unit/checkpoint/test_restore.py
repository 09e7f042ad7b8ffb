"""Restore: checkpoint and tables go back together, into a new generation; killed anywhere, the same end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.commits import TABLE
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace, local_place
from tidemill.checkpoint.current import BaseTable, read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup
from tidemill.checkpoint.verbs.backup_manifest import Manifest
from tidemill.checkpoint.verbs.restore import Backup, plan_restore, restore_steps
from tidemill.errors import DataError, FencedError, GateRefusedError
from tidemill.ledger.read import transaction_version
from tidemill.ledger.table_restore import CLOSED, restore_through_delta_rs
from tidemill.names import transaction_id

REQUEST = BackupRequest("ann", "nightly", datetime(2026, 3, 1, tzinfo=UTC))
STEPS = ("write checkpoint", f"table {TABLE}", "switch generation")
MOMENTS = ("hold", "journal", "epoch", *STEPS, "verify", "audit", "close")


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(3)


@pytest.fixture
def backup(orders: PipelineOnDisk) -> Manifest:
    """Make a backup after batch 2, and run two more batches."""
    taken = take_backup(orders.store, orders.resolved, REQUEST)
    orders.ran_on(3, 5)
    return taken


def plan_of_restore(
    orders: PipelineOnDisk, backup: Manifest, origin: PipelineOnDisk | None = None
) -> dict[str, Any]:
    found = backup_in(origin or orders, backup)
    return plan_restore(orders.store, orders.resolved, found, lambda facts, _: (facts, "away"))


def backup_in(orders: PipelineOnDisk, backup: Manifest) -> Backup:
    return Backup(orders.store, orders.resolved.layout, backup)


def restore(
    orders: PipelineOnDisk, backup: Manifest, kill_at: str = "", origin: PipelineOnDisk | None = None
) -> None:
    layout = orders.resolved.layout
    request = Request("restore", "orders", "restore-1", "ann", "because")
    plan = plan_of(orders.store, layout, request, lambda: plan_of_restore(orders, backup, origin))
    acts = (backup_in(origin or orders, backup), restore_through_delta_rs)
    steps = restore_steps(orders.store, orders.resolved, request, plan, acts)

    def verify() -> None:
        check(gather_facts(orders.store, orders.resolved, orders.live))

    carry_out(orders.store, layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))


def test_the_plan_says_what_is_undone(orders: PipelineOnDisk, backup: Manifest) -> None:
    plan = plan_of_restore(orders, backup)
    assert (plan["live"], plan["parent"], plan["number"], plan["backup"]) == (
        "g0001",
        "g0001",
        2,
        backup.backup,
    )
    table = plan["tables"][TABLE]
    assert (table["version"], table["to"], table["batches"], table["rows"]) == (5, 3, 2, 20)


def test_checkpoint_and_table_go_back_together(orders: PipelineOnDisk, backup: Manifest) -> None:
    assert len(orders.ids) == 50
    restore(orders, backup)
    assert orders.ids == list(range(30))
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert (live.generation, live.request_id) == ("g0002", "restore-1")
    assert live.base is not None
    assert (live.base.generation, live.base.batch_id, live.base.lineage) == ("g0001", 2, {"g0001": 2})
    assert live.base.tables == {TABLE: BaseTable(id=orders.table_id, version=3)}
    batches = CheckpointBatches(orders.store, f"{orders.state}/g0002")
    assert (batches.last_planned(), batches.last_committed()) == (2, 2)
    assert batches.query_id() not in (None, "2f1c")


def test_the_next_batch_is_written_and_not_skipped(orders: PipelineOnDisk, backup: Manifest) -> None:
    restore(orders, backup)
    orders.ran_on(3, 4, generation="g0002")
    assert orders.ids == list(range(40))
    check(gather_facts(orders.store, orders.resolved, "g0002"))


def test_a_driver_of_before_can_commit_nothing_any_more(orders: PipelineOnDisk, backup: Manifest) -> None:
    restore(orders, backup)
    app_id = transaction_id("orders", "g0001", TABLE)
    assert transaction_version(orders.table, app_id) == CLOSED
    with pytest.raises(FencedError) as fenced:
        orders.commit(5)
    assert fenced.value.error_id == "TIDE-RUN-003"
    assert orders.ids == list(range(30))


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_anywhere_and_repeated_a_restore_comes_to_the_same_end(
    orders: PipelineOnDisk, backup: Manifest, moment: str
) -> None:
    with pytest.raises(Killed):
        restore(orders, backup, moment)
    assert [hold.id for hold in read_holds(orders.store, orders.resolved.layout, "orders")] == ["restore-1"]
    restore(orders, backup)
    assert (orders.ids, orders.live) == (list(range(30)), "g0002")
    assert len([name for name in orders.files if name.startswith("g0002/")]) == len(backup.files)
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    assert unfinished(orders.store, orders.resolved.layout, "orders") is None


def test_rows_of_others_are_never_undone(orders: PipelineOnDisk, backup: Manifest) -> None:
    orders.commit(7, pipeline="payments")
    with pytest.raises(GateRefusedError) as refused:
        plan_of_restore(orders, backup)
    assert refused.value.error_id == "TIDE-CKPT-040"
    assert len(orders.ids) == 60


def test_rows_that_others_write_while_it_runs_are_not_undone(
    orders: PipelineOnDisk, backup: Manifest
) -> None:
    with pytest.raises(Killed):
        restore(orders, backup, "write checkpoint")
    orders.commit(7, pipeline="payments")
    with pytest.raises(GateRefusedError) as refused:
        restore(orders, backup)
    assert refused.value.error_id == "TIDE-CKPT-040"
    assert len(orders.ids) == 60


def test_maintenance_since_the_backup_is_no_reason(orders: PipelineOnDisk, backup: Manifest) -> None:
    orders.compact()
    restore(orders, backup)
    assert orders.ids == list(range(30))


def test_a_table_that_is_gone_is_refused(orders: PipelineOnDisk, backup: Manifest) -> None:
    table_id = orders.table_id
    for file in orders.store.list_files(orders.table):
        orders.store.delete(file.path)
    with pytest.raises(GateRefusedError) as refused:
        plan_of_restore(orders, backup)
    assert refused.value.error_id == "TIDE-CKPT-080"
    assert (refused.value.facts["table_id"], refused.value.facts["wanted_id"]) == (None, table_id)


def test_a_table_that_is_older_than_the_backup_is_refused(orders: PipelineOnDisk, backup: Manifest) -> None:
    """An older copy of it was put in its place, whole."""
    for version in (3, 4, 5):
        orders.store.delete(f"{orders.table}/_delta_log/{version:020}.json")
    with pytest.raises(GateRefusedError) as refused:
        plan_of_restore(orders, backup)
    assert refused.value.error_id == "TIDE-CKPT-092"
    assert refused.value.facts["because"] == "its newest batch is 1, not 2"


@pytest.mark.parametrize("damage", [None, b"", b"v1\n{}"])
def test_a_damaged_backup_is_refused_before_any_table_is_touched(
    orders: PipelineOnDisk, backup: Manifest, damage: bytes | None
) -> None:
    file = f"{orders.state}/backups/{backup.backup}/checkpoint/offsets/2"
    orders.store.delete(file)
    if damage is not None:
        orders.store.write(file, damage)
    with pytest.raises(DataError) as refused:
        restore(orders, backup)
    assert refused.value.error_id == "TIDE-CKPT-047"
    assert (len(orders.ids), orders.live) == (50, "g0001")


def test_a_backup_can_be_restored_elsewhere(orders: PipelineOnDisk, backup: Manifest, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    elsewhere = PipelineOnDisk(local_place(tmp_path / "elsewhere"))
    carry_table(orders, elsewhere)
    restore(elsewhere, backup, origin=orders)
    assert elsewhere.ids == list(range(30))
    # It cannot be g0001, because the copied table knows transactions of g0001.
    assert elsewhere.live == "g0002"
    elsewhere.ran_on(3, 4, generation="g0002")
    assert elsewhere.ids == list(range(40))
    check(gather_facts(elsewhere.store, elsewhere.resolved, "g0002"))
    assert len(orders.ids) == 50


def test_restored_elsewhere_the_same_request_is_carried_out_again(
    orders: PipelineOnDisk, backup: Manifest, tmp_path: Path
) -> None:
    restore(orders, backup)
    orders.ran_on(3, 5, generation="g0002")
    (tmp_path / "elsewhere").mkdir()
    elsewhere = PipelineOnDisk(local_place(tmp_path / "elsewhere"))
    carry_table(orders, elsewhere)
    restore(elsewhere, backup, origin=orders)
    assert (elsewhere.ids, elsewhere.live) == (list(range(30)), "g0003")


def carry_table(source: PipelineOnDisk, target: PipelineOnDisk) -> None:
    for file in source.store.list_files(source.table):
        content = source.store.read(file.path)
        assert content is not None
        target.store.write(f"{target.table}{file.path.removeprefix(source.table)}", content)


def test_a_backup_taken_before_a_rewind_brings_its_rows_back(
    orders: PipelineOnDisk, backup: Manifest
) -> None:
    DeltaTable(orders.table, storage_options=orders.table_options).restore(0)
    assert orders.ids == []
    plan: dict[str, Any] = plan_of_restore(orders, backup)
    assert json.dumps(plan)
    restore(orders, backup)
    assert orders.ids == list(range(30))
