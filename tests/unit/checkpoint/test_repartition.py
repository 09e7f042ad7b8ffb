"""Conditions for repartitioning state, and the old generation's survival of Spark's rewrite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import checkpoint_files
from tests.support.commits import TABLE
from tests.support.declared import declared
from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.repartition import plan_repartition, repartition_steps
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.read import transaction_version
from tidemill.ledger.table_restore import CLOSED, restore_through_delta_rs
from tidemill.names import transaction_id
from tidemill.spec.project import Pipeline
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS

PINNED = {"spark.sql.shuffle.partitions": "2"}


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    orders = PipelineOnDisk(store_place).ran(3)
    pin(orders, 2)
    for version in (1, 2, 3):
        orders.store.write(f"{orders.state}/g0001/state/0/0/{version}.changelog", b"changes")
    return orders


def pin(orders: PipelineOnDisk, batch_id: int) -> None:
    """Name the partitions in a batch's offsets, as Spark does."""
    planned = checkpoint_files.planned({"orders": {"0": 10 * (batch_id + 1)}}, conf=PINNED)
    orders.store.write(f"{orders.state}/g0001/offsets/{batch_id}", planned)


def with_partitions(orders: PipelineOnDisk, partitions: int) -> Pipeline:
    keys = dict(orders.place.keys)
    return declared(orders.place.folder, environment=keys, run={"shuffle_partitions": partitions})


def plan(orders: PipelineOnDisk, wanted: int, declared_as: int) -> dict[str, Any]:
    return plan_repartition(orders.store, with_partitions(orders, declared_as), wanted)


def repartition(orders: PipelineOnDisk, kill_at: str = "") -> None:
    """Repartition with a stand-in for Spark that adds its batch."""
    layout = orders.resolved.layout
    request = Request("repartition", "orders", "repartition-1", "ann", "because")
    planned = plan_of(orders.store, layout, request, lambda: plan(orders, 4, 4))

    def add_batch(checkpoint: str, partitions: int) -> None:
        assert orders.store.read(f"{checkpoint}/offsets/3") is None, (
            "Spark would not begin on half of its batch"
        )
        orders.store.write(f"{checkpoint}/offsets/3", b"v1\n{}")
        if kill_at == "in spark":
            raise Killed
        orders.store.write(f"{checkpoint}/commits/3", b"v1\n{}")

    acts = (add_batch, restore_through_delta_rs)
    steps = repartition_steps(orders.store, with_partitions(orders, 4), request, planned, acts)
    carry_out(orders.store, layout, procedure_of(request, planned, steps), lambda: None, killed_at(kill_at))


MOMENTS = ["", "in spark", "write checkpoint", f"table {TABLE}", "switch generation"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_anywhere_and_repeated_the_new_generation_has_sparks_batch(
    orders: PipelineOnDisk, moment: str
) -> None:
    if moment:
        with pytest.raises(Killed):
            repartition(orders, kill_at=moment)
    repartition(orders)
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert live.base is not None
    assert (live.base.generation, live.base.batch_id) == ("g0001", 3)
    # Half of Spark's batch stays in its folder. The repetition has begun in a separate folder.
    assert live.generation == ("g0003" if moment == "in spark" else "g0002")
    assert CheckpointBatches(orders.store, f"{orders.state}/{live.generation}").commit_ids() == [0, 1, 2, 3]
    assert CheckpointBatches(orders.store, f"{orders.state}/g0001").commit_ids() == [0, 1, 2]
    assert transaction_version(orders.table, transaction_id("orders", "g0001", TABLE)) == CLOSED
    assert transaction_version(orders.table, transaction_id("orders", live.generation, TABLE)) == 3
    assert orders.ids == list(range(30))


@pytest.mark.parametrize(("wanted", "declared_as"), [(4, 2), (2, 2), (2, 4)])
def test_a_number_that_the_file_does_not_say_or_that_is_there_already_is_refused(
    orders: PipelineOnDisk, wanted: int, declared_as: int
) -> None:
    with pytest.raises(UsageError) as refused:
        plan(orders, wanted, declared_as)
    assert refused.value.error_id == "TIDE-CKPT-081"


def test_a_pipeline_without_state_is_refused(orders: PipelineOnDisk) -> None:
    for version in (1, 2, 3):
        orders.store.delete(f"{orders.state}/g0001/state/0/0/{version}.changelog")
    with pytest.raises(UsageError) as refused:
        plan(orders, 4, 4)
    assert refused.value.error_id == "TIDE-CKPT-081"


def test_state_in_memory_is_refused_before_anything_is_copied(orders: PipelineOnDisk) -> None:
    conf = {**PINNED, PROVIDER_SETTING: PROVIDERS["memory"]}
    pinned = checkpoint_files.planned({"orders": {"0": 30}}, conf=conf)
    orders.store.write(f"{orders.state}/g0001/offsets/2", pinned)
    with pytest.raises(UsageError) as refused:
        plan(orders, 4, 4)
    assert refused.value.error_id == "TIDE-CKPT-081"
    assert "`rocksdb` only" in refused.value.problem
    assert "reset orders --from earliest" in refused.value.fix


@pytest.mark.parametrize("begun_in", ["offsets", "table"])
def test_a_batch_that_was_begun_and_not_finished_is_refused(orders: PipelineOnDisk, begun_in: str) -> None:
    if begun_in == "offsets":
        pin(orders, 3)
    else:
        orders.commit(3)
    with pytest.raises(GateRefusedError) as refused:
        plan(orders, 4, 4)
    assert refused.value.error_id == "TIDE-CKPT-082"
    assert (refused.value.facts["begun"], refused.value.facts["finished"]) == (3, 2)
