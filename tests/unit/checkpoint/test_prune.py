"""Prune moves unneeded files to the trash, but never the live generation, its parent or backups."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipelines_on_disk import Killed, PipelineOnDisk, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import Base, Current, read_current, switch_generation
from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.trash import TrashedRequest, move_to_trash, read_trash
from tidemill.checkpoint.verbs.prune import Keep, PruneFacts, plan_prune, prune_steps
from tidemill.errors import InternalError
from tidemill.storage.store import StoredFile

NOW = datetime(2026, 3, 1, tzinfo=UTC)
STATE = "/lake/state/orders"


def facts(*paths: str, live: str = "g0009", base: str | None = None, **other: Any) -> PruneFacts:
    files = tuple(StoredFile(f"{STATE}/{path}", 10, NOW - timedelta(days=30)) for path in sorted(paths))
    taken_from = None if base is None else Base(generation=base)
    record = Current(pipeline="orders", generation=live, why="test", base=taken_from)
    return PruneFacts(
        STATE, files, record, **{"backed_up": {}, "trash": (), "closed": (), "now": NOW, **other}
    )


def moves(found: PruneFacts, **keep: Any) -> list[str]:
    return [item["path"] for item in plan_prune(found, Keep(**keep))["moves"]]


GENERATIONS = tuple(f"g000{n}/metadata" for n in range(1, 10))


def test_the_newest_old_generations_stay() -> None:
    assert moves(facts(*GENERATIONS), generations=2) == ["g0001", "g0002", "g0003", "g0004", "g0005", "g0006"]


def test_the_live_one_stays_even_if_it_is_the_oldest() -> None:
    assert moves(facts(*GENERATIONS[:3], live="g0001"), generations=0) == ["g0002", "g0003"]


def test_one_that_was_never_live_goes_whatever_stays() -> None:
    found = facts(*GENERATIONS[:5], live="g0003", recorded=frozenset({"g0001", "g0002", "g0003"}))
    assert moves(found, generations=2) == ["g0004", "g0005"]
    kept = facts(*GENERATIONS[:5], live="g0003", recorded=frozenset({"g0003"}), backed_up={"b": "g0005"})
    assert moves(kept, generations=2) == ["g0001", "g0002", "g0004"]


def test_the_parent_of_the_live_one_and_those_of_backups_stay() -> None:
    found = facts(*GENERATIONS[:4], live="g0004", base="g0001", backed_up={"20260101": "g0002"})
    assert moves(found, generations=0) == ["g0003"]


def test_the_generation_of_a_backup_that_goes_may_go() -> None:
    found = facts(
        "g0001/metadata",
        "g0004/metadata",
        "backups/20260101/manifest.json",
        "backups/20260102/manifest.json",
        live="g0004",
        backed_up={"20260101": "g0001", "20260102": "g0004"},
    )
    assert moves(found, generations=0, backups=1) == ["g0001", "backups/20260101"]


def test_without_a_record_no_generation_is_moved() -> None:
    found = facts(*GENERATIONS)
    unknown = PruneFacts(STATE, found.files, None, {}, (), (), NOW)
    assert moves(unknown, generations=0) == []


def test_a_backup_that_is_being_written_stays_and_an_abandoned_one_goes() -> None:
    found = facts("backups/20260101/checkpoint/metadata")
    young = StoredFile(f"{STATE}/backups/20260228/checkpoint/metadata", 10, NOW - timedelta(minutes=5))
    assert moves(PruneFacts(STATE, (*found.files, young), found.live, {}, (), (), NOW)) == [
        "backups/20260101"
    ]


def test_the_newest_receipts_epochs_and_journal_entries_stay() -> None:
    found = facts(
        *(f"{folder}/{n}.json" for folder in ("receipts", "epochs") for n in (1, 2, 3)),
        "holds/1.json",
        "journal/a/plan.json",
        "journal/b/plan.json",
        closed=("b", "a"),
    )
    assert moves(found, records=1) == [
        "receipts/1.json",
        "receipts/2.json",
        "epochs/1.json",
        "epochs/2.json",
        "journal/b",
    ]
    assert "epochs/3.json" not in moves(found, records=0)


def test_the_newest_listings_of_joined_folders_stay_whatever_their_digests() -> None:
    times = {"a": 1, "c": 3, "b": 2}
    listings = tuple(
        StoredFile(f"{STATE}/listings/{name}.json.gz", 10, NOW - timedelta(days=days))
        for name, days in times.items()
    )
    assert moves(replace(facts(), files=listings), records=1) == [
        "listings/c.json.gz",
        "listings/b.json.gz",
    ]
    assert len(moves(replace(facts(), files=listings), records=0)) == 2


def test_folders_that_only_look_like_generations_are_left_alone() -> None:
    assert moves(facts("g1/x", "g00001/x", "gxxxx/x", "current/x", "status.json"), generations=0) == []


def test_trash_is_deleted_by_its_age() -> None:
    old, new = (TrashedRequest(name, NOW - timedelta(days=d), 3, 30) for name, d in (("a", 8), ("b", 6)))
    plan = plan_prune(facts(trash=(old, new)), Keep(trash=timedelta(days=7)))
    assert plan["deletes"] == [{"path": "trash/a", "files": 3, "bytes": 30}]


def test_the_plan_says_how_much_each_thing_weighs() -> None:
    found = facts("g0001/metadata", "g0001/offsets/0", "g0009/metadata")
    assert plan_prune(found, Keep(generations=0))["moves"] == [{"path": "g0001", "files": 2, "bytes": 20}]


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    orders = PipelineOnDisk(store_place).ran(3)
    layout = orders.resolved.layout
    for number, generation in ((2, "g0002"), (3, "g0003")):
        record = Current(number=number, pipeline="orders", generation=generation, why="test")
        switch_generation(orders.store, layout, record)
        orders.store.write(f"{orders.state}/{generation}/metadata", b'{"id": "1"}')
    for _ in range(3):
        claim_epoch(orders.store, layout, "orders", "run")
    return orders


def prune(orders: PipelineOnDisk, kill_at: str = "", number: int = 1) -> None:
    layout = orders.resolved.layout
    request = Request("prune", "orders", f"prune-{number}", "ann", "hygiene")
    plan = plan_of(
        orders.store, layout, request, lambda: plan_prune(facts_of(orders), Keep(1, 1, 1, timedelta(0)))
    )
    steps = prune_steps(orders.store, layout, request, plan)
    procedure = procedure_of(request, plan, steps, forbids_starts=False)
    carry_out(orders.store, layout, procedure, lambda: None, killed_at(kill_at))


def facts_of(orders: PipelineOnDisk) -> PruneFacts:
    layout = orders.resolved.layout
    return PruneFacts(
        orders.state,
        tuple(orders.store.list_files(orders.state)),
        read_current(orders.store, layout, "orders"),
        {},
        tuple(read_trash(orders.store, layout, "orders")),
        (),
        datetime.now(UTC) + timedelta(seconds=5),
    )


def test_what_is_pruned_lies_in_the_trash_as_it_was_and_later_is_gone(orders: PipelineOnDisk) -> None:
    metadata = orders.store.read(f"{orders.state}/g0001/metadata")
    prune(orders)
    assert orders.store.read(f"{orders.state}/trash/prune-1/g0001/metadata") == metadata
    assert {name.partition("/")[0] for name in orders.files if name.startswith("g")} == {"g0002", "g0003"}
    assert newest_epoch(orders.store, orders.resolved.layout, "orders") == 3
    prune(orders, number=2)
    assert not [name for name in orders.files if name.startswith("trash/prune-1")]


@pytest.mark.parametrize(
    "moment", ["journal", "move to trash", "delete old trash", "verify", "audit", "close"]
)
def test_killed_anywhere_and_repeated_a_prune_comes_to_the_same_end(
    orders: PipelineOnDisk, moment: str
) -> None:
    with pytest.raises(Killed):
        prune(orders, moment)
    prune(orders)
    assert {name.partition("/")[0] for name in orders.files if name.startswith("g")} == {"g0002", "g0003"}
    assert {name for name in orders.files if name.startswith("epochs")} == {"epochs/00000003.json"}


def test_a_prune_takes_no_hold_and_fences_nobody_off(orders: PipelineOnDisk) -> None:
    layout = orders.resolved.layout
    with pytest.raises(Killed):
        prune(orders, "move to trash")
    assert read_holds(orders.store, layout, "orders") == []
    assert newest_epoch(orders.store, layout, "orders") == 3


def test_a_generation_that_became_live_since_the_plan_stays(orders: PipelineOnDisk) -> None:
    layout = orders.resolved.layout
    plan = plan_prune(facts_of(orders), Keep(generations=0))
    request = Request("prune", "orders", "prune-1", "ann", "hygiene")
    assert "g0002" in [item["path"] for item in plan["moves"]]
    record = Current(number=4, pipeline="orders", generation="g0002", why="by hand")
    assert switch_generation(orders.store, layout, record)
    prune_steps(orders.store, layout, request, plan)[0].act({})
    assert "g0002/metadata" in orders.files


def test_no_empty_folders_are_left_on_a_local_disk(store_root: str, orders: PipelineOnDisk) -> None:
    prune(orders)
    assert "://" in store_root or not Path(f"{orders.state}/g0001").exists()


def test_only_what_is_in_the_state_folder_can_be_moved_to_its_trash(orders: PipelineOnDisk) -> None:
    layout = orders.resolved.layout
    for path in (layout.table("bronze/orders"), f"{orders.state}x/g0001", orders.state):
        with pytest.raises(InternalError) as refused:
            move_to_trash(orders.store, layout, "orders", "prune-1", path)
        assert refused.value.error_id in ("TIDE-CKPT-038", "TIDE-STOR-002")
    assert len(orders.ids) == 30
