"""No operation goes back to where files would have to be read again that a cleaning has taken away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.cleaning import clean
from tests.support.declared import declared
from tests.support.landed_files import LandedFiles
from tests.support.stores import local_place
from tidemill.backfill.files_there import check_files_there, files_read_live, files_there
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.verbs.fork import plan_fork
from tidemill.checkpoint.verbs.rewind import Target, plan_rewind, rewind_steps
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.table_restore import restore_through_delta_rs

# Batches 0 to 3 are older than any rewind window, and so are their files.
OLD, BATCHES = 4, 6
DAYS_AGO = 5 * 86_400


@pytest.fixture
def orders(tmp_path: Path) -> LandedFiles:
    """Return six files with a batch each, four of them archived, and one unread file."""
    orders = LandedFiles.on(local_place(tmp_path))
    then = time.time() - DAYS_AGO
    for number in range(BATCHES):
        orders.land(f"f{number}.json")
        os.utime(f"{orders.store.root}/landing/orders/f{number}.json", (then, then))
        orders.read(f"f{number}.json")
        if number < OLD:
            os.utime(f"{orders.checkpoint}/commits/{number}", (then, then))
    orders.land("new.json")
    clean(orders.resolved, after=timedelta(0))
    assert orders.files("archived/landing/orders") == [f"f{number}.json" for number in range(OLD)]
    return orders


def told_nothing(facts: CheckpointFacts, _: Any) -> tuple[CheckpointFacts, str]:
    return facts, ""


def rewind(orders: LandedFiles, batch_id: int) -> None:
    store, pipeline = orders.store, orders.resolved
    request = Request("rewind", "orders", f"rewind-{batch_id}", "ann", "a test")
    target = Target(batch_id=batch_id, generation="")
    plan = plan_of(
        store, pipeline.layout, request, lambda: plan_rewind(store, pipeline, target, told_nothing)
    )
    steps = rewind_steps(store, pipeline, request, plan, restore_through_delta_rs)

    def gate() -> None:
        live = read_current(store, pipeline.layout, "orders")
        assert live is not None
        check(gather_facts(store, pipeline, live.generation))

    carry_out(store, pipeline.layout, procedure_of(request, plan, steps), gate)


def fork(orders: LandedFiles, batch_id: int) -> None:
    folder = Path(orders.store.root).parent
    files = {"path": "landing/orders", "format": "json", "schema": "id long", "after": "archive"}
    copy = declared(
        folder,
        "shadow",
        {"root": orders.store.root},
        source={"files": files},
        sinks=[{"delta": {"table": "bronze/copy"}}],
    )
    plan_fork(orders.store, (orders.resolved, copy), batch_id, told_nothing)


@pytest.mark.parametrize("verb", [rewind, fork])
def test_a_verb_does_not_go_back_behind_archived_files(
    orders: LandedFiles, verb: Callable[[LandedFiles, int], None]
) -> None:
    with pytest.raises(GateRefusedError) as refused:
        verb(orders, 1)
    assert refused.value.facts["cause"] == "TIDE-CKPT-024"


def test_nor_does_a_second_rewind_before_a_batch(orders: LandedFiles) -> None:
    rewind(orders, OLD)
    with pytest.raises(GateRefusedError) as refused:
        rewind(orders, 1)
    assert refused.value.facts["cause"] == "TIDE-CKPT-024"


def test_another_file_under_the_name_of_an_archived_one_is_not_taken_for_it(orders: LandedFiles) -> None:
    """It came with an old time, as `cp -p` makes it."""
    new = f"{orders.store.root}/landing/orders/f0.json"
    orders.store.write(new, b"ANOTHER CONTENT")
    then = time.time() - 2 * DAYS_AGO
    os.utime(new, (then, then))
    read = files_read_live(orders.store, orders.resolved, "g0001")
    with pytest.raises(UsageError) as refused:
        check_files_there(orders.resolved, read, files_there(orders.resolved, read))
    assert (refused.value.error_id, refused.value.facts["files"]) == ("TIDE-BACK-008", "f0.json")

    archived = f"{orders.store.root}/archived/landing/orders/f0.json"
    before = orders.store.read(archived)
    clean(orders.resolved, after=timedelta(0))
    assert orders.store.read(archived) == before
    assert orders.store.read(new) == b"ANOTHER CONTENT"
