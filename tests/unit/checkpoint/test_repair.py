"""Repair: `offsets/N` says again what the ledger says of batch N."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import checkpoint_files
from tests.support.commits import commit_of
from tests.support.gate_facts import facts_of, refusal_of
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.repair import RepairFacts, gather_repair, plan_repair, repair_steps
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry, OffsetRange

# Facts of the gate about an undamaged checkpoint.
HEALTHY = facts_of(2, 2, 2)


def offsets(end: int) -> bytes:
    return checkpoint_files.planned({"orders": {"0": end}}, watermark_ms=7, conf={"pinned": "2"})


def entries(*batch_ids: int) -> tuple[LedgerEntry, ...]:
    return tuple(commit_of(batch_id).entry for batch_id in batch_ids)


def planned(files: dict[int, bytes], *batch_ids: int) -> list[dict[str, Any]]:
    facts = RepairFacts("g0001", files, entries(*batch_ids), HEALTHY)
    files_planned: list[dict[str, Any]] = plan_repair(facts)["files"]
    return files_planned


def test_what_agrees_is_left_alone() -> None:
    assert planned({1: offsets(20), 2: offsets(30)}, 2, 1) == []


def test_overwritten_offsets_are_written_as_the_ledger_has_them() -> None:
    [file] = planned({1: offsets(20), 2: offsets(35)}, 2, 1)
    assert (file["batch_id"], file["found"], file["ledger"]) == (
        2,
        {"source": {"orders": {"0": 35}}},
        {"source": {"orders": {"0": 30}}},
    )
    assert file["content"].encode() == offsets(30)


def test_a_source_that_the_ledger_does_not_know_keeps_its_offsets() -> None:
    """A join of the source with itself has two lines; entries of old drivers name only the first."""
    second = b'\n{"orders":{"0":7}}'
    assert planned({1: offsets(20) + second, 2: offsets(30) + second}, 2, 1) == []
    [file] = planned({1: offsets(20) + second, 2: offsets(35) + second}, 2, 1)
    assert file["content"].encode() == offsets(30) + second


def test_a_stream_that_the_batch_did_not_read_is_taken_out() -> None:
    """A driver that was fenced off had it declared."""
    named = offsets(30).replace(b"v1", b"v2", 1).replace(b'\n{"orders"', b'\nnorth:{"orders"')
    read = OffsetRange(end={"orders": {"0": 30}})
    entry = commit_of(2).entry.model_copy(update={"sources": {"north": read}})
    files = {2: named + b'\nsouth:{"logOffset":7}'}
    [file] = plan_repair(RepairFacts("g0001", files, (entry,), HEALTHY))["files"]
    assert file["content"].encode() == named


@pytest.mark.parametrize("torn", [b"", b"v1", offsets(30)[:23], offsets(30)[:-3]])
def test_a_torn_file_is_made_from_ledger_and_neighbour(torn: bytes) -> None:
    [file] = planned({1: offsets(20), 2: torn}, 2, 1)
    version, head, end = file["content"].split("\n")
    assert (version, json.loads(end)) == ("v1", {"orders": {"0": 30}})
    assert json.loads(head)["conf"] == {"pinned": "2"}


def test_a_torn_file_without_a_neighbour_is_refused() -> None:
    with pytest.raises(GateRefusedError) as refused:
        planned({2: b""}, 2)
    assert refused.value.error_id == "TIDE-CKPT-084"


def test_a_planned_batch_that_no_table_has_is_left_alone() -> None:
    assert planned({2: offsets(30), 3: offsets(99)}, 2) == []


def test_tables_that_contradict_each_other_are_refused() -> None:
    other = commit_of(1).entry.model_copy(update={"batch_id": 2})
    with pytest.raises(GateRefusedError) as refused:
        plan_repair(RepairFacts("g0001", {2: offsets(30)}, (*entries(2), other), HEALTHY))
    assert refused.value.error_id == "TIDE-CKPT-083"


@pytest.mark.parametrize("committed", [2, None])
def test_a_torn_file_of_a_batch_that_no_table_has_is_refused_as_by_the_gate(committed: int | None) -> None:
    """Spark planned the batch and never finished it: the ledger does not know what it was to read."""
    newest = 0 if committed is None else committed + 1
    damaged = {f"offsets/{newest}": "cut short"}
    checkpoint = facts_of(newest, committed, committed, damaged=damaged)
    files = {n: offsets(10 * (n + 1)) for n in range(newest)} | {newest: b""}
    with pytest.raises(GateRefusedError) as refused:
        plan_repair(RepairFacts("g0001", files, entries(*range(newest)), checkpoint))
    assert refused.value.error_id == "TIDE-CKPT-007"
    assert refused.value.fix == refusal_of(checkpoint).fix
    begins = 'reset orders --from \'{"orders": {"0": 0}}\''
    verb = begins if committed is None else f"rewind orders --to {committed}"
    assert refused.value.fix.startswith(f"tidemill checkpoint {verb}")


def test_a_file_that_contradicts_its_checksum_alone_is_written_again() -> None:
    checkpoint = facts_of(2, 2, 2, damaged={"offsets/2": "it does not match its checksum file"})
    facts = RepairFacts("g0001", {1: offsets(20), 2: offsets(30)}, entries(2, 1), checkpoint)
    [file] = plan_repair(facts)["files"]
    assert file["content"].encode() == offsets(30)


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    """Return a pipeline whose newest offsets a zombie has overwritten."""
    orders = PipelineOnDisk(store_place).ran(3)
    orders.store.write(f"{orders.state}/g0001/offsets/2", offsets(35))
    orders.store.write(f"{orders.state}/g0001/offsets/.2.crc", b"crc\0 of the old one")
    return orders


def repair(orders: PipelineOnDisk, kill_at: str = "") -> None:
    layout = orders.resolved.layout
    request = Request("repair", "orders", "repair-1", "ann", "zombie")
    plan = plan_of(
        orders.store, layout, request, lambda: plan_repair(gather_repair(orders.store, orders.resolved))
    )
    steps = repair_steps(orders.store, layout, request, plan)

    def verify() -> None:
        check(gather_facts(orders.store, orders.resolved, "g0001"))

    carry_out(orders.store, layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))


def test_the_gate_refuses_before_and_is_content_after(orders: PipelineOnDisk) -> None:
    with pytest.raises(GateRefusedError):
        check(gather_facts(orders.store, orders.resolved, "g0001"))
    repair(orders)
    batch = CheckpointBatches(orders.store, f"{orders.state}/g0001").offsets(2)
    assert batch is not None
    assert list(batch.ends.values()) == [{"orders": {"0": 30}}]
    assert "g0001/offsets/.2.crc" not in orders.files
    assert orders.store.read(f"{orders.state}/trash/repair-1/g0001/offsets/2") == offsets(35)


@pytest.mark.parametrize("moment", ["hold", "journal", "epoch", "offsets/2", "verify", "audit", "close"])
def test_killed_anywhere_and_repeated_a_repair_comes_to_the_same_end(
    orders: PipelineOnDisk, moment: str
) -> None:
    with pytest.raises(Killed):
        repair(orders, moment)
    repair(orders)
    assert orders.store.read(f"{orders.state}/trash/repair-1/g0001/offsets/2") == offsets(35)
    assert gather_repair(orders.store, orders.resolved).files[2] == offsets(30)
