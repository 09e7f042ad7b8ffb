"""Files that were read go once nothing needs them: killed anywhere, on every store, never one too many."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.cleaning import DAY, clean
from tests.support.landed_files import LandedFiles
from tests.support.pipelines_on_disk import Killed, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.cleaning.deleted import deleted_sizes
from tidemill.checkpoint.cleaning.stored import deleted_files, stored_files
from tidemill.checkpoint.current import Current, switch_generation
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup
from tidemill.checkpoint.verbs.bring_back import bring_back_step, plan_bring_back
from tidemill.errors import GateRefusedError, UsageError
from tidemill.storage.store import Store

NAMES = ("a.json", "day=1/b.json", "day=1/c.json", "z.json")


@pytest.fixture(params=["archive", "delete"])
def orders(request: pytest.FixtureRequest, store_place: StorePlace) -> LandedFiles:
    return three_read(LandedFiles.on(store_place, request.param))


@pytest.fixture
def archiving(store_place: StorePlace) -> LandedFiles:
    return three_read(LandedFiles.on(store_place))


def three_read(orders: LandedFiles) -> LandedFiles:
    """Return three files that were read in two batches; another one is unread."""
    orders.land(*NAMES)
    orders.read("a.json")
    orders.read("day=1/b.json", "day=1/c.json")
    return orders


def gone(orders: LandedFiles) -> list[str]:
    """Return the files that were archived, or are known to be deleted."""
    if orders.after == "archive":
        return orders.files("archived/landing/orders")
    return sorted(deleted_sizes(orders.store, orders.resolved.layout, "orders", "source"))


def test_what_was_read_goes_and_the_rest_stays(orders: LandedFiles) -> None:
    plan = clean(orders.resolved)
    stream = plan["streams"]["source"]
    assert (stream["files"], stream["not_read_for_good"], stream["stays"]) == (3, 1, {})
    assert orders.files("landing/orders") == ["z.json"]
    assert gone(orders) == list(NAMES[:3])
    (entry,) = read_audit(orders.store, orders.resolved.layout, "orders")
    assert (entry.verb, entry.by, entry.plan["streams"]["source"]["files"]) == ("clean", "ann", 3)
    assert clean(orders.resolved)["streams"]["source"]["files"] == 0
    assert gone(orders) == list(NAMES[:3])


@pytest.mark.parametrize("moment", ["journal", "record deletions", "archive and delete", "verify", "audit"])
def test_killed_after_any_step_and_repeated_it_ends_alike(orders: LandedFiles, moment: str) -> None:
    with pytest.raises(Killed):
        clean(orders.resolved, step_done=killed_at(moment))
    # Longer than nothing needs z.json, had the plan not been made before.
    orders.read("z.json")
    clean(orders.resolved)
    assert orders.files("landing/orders") == ["z.json"]
    assert gone(orders) == list(NAMES[:3])
    assert len(read_audit(orders.store, orders.resolved.layout, "orders")) == 1


def test_what_was_begun_takes_nothing_once_a_reason_against_it_has_come_up(orders: LandedFiles) -> None:
    """Such as a hold, or a second pipeline that reads the folder; it may be completed days later."""
    with pytest.raises(Killed):
        clean(orders.resolved, step_done=killed_at("journal"))
    clean(orders.resolved, why_left=lambda: "the pipeline is held: audit-1")
    assert orders.files("landing/orders") == list(NAMES)
    assert gone(orders) == []


@pytest.mark.parametrize("call", ["move_within", "delete", "_size"])
def test_killed_within_a_file_and_repeated_none_is_lost(
    orders: LandedFiles, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = getattr(Store, call)
    calls: list[str] = []

    def dies(store: Store, path: str, *others: Any) -> Any:
        calls.append(path)
        if len(calls) == 2:
            raise Killed
        return real(store, path, *others)

    with monkeypatch.context() as patched:
        patched.setattr(Store, call, dies)
        patched.setattr("tidemill.checkpoint.verbs.clean.FILES_AT_ONCE", 1)
        try:
            clean(orders.resolved)
        except Killed:
            left = {*orders.files("landing/orders"), *gone(orders)}
            assert left == set(NAMES)
    clean(orders.resolved)
    assert orders.files("landing/orders") == ["z.json"]
    assert gone(orders) == list(NAMES[:3])


def test_files_of_batches_that_a_rewind_may_take_back_stay(orders: LandedFiles) -> None:
    stream = clean(orders.resolved, after=timedelta(hours=1))["streams"]["source"]
    assert (stream["files"], stream["not_read_for_good"]) == (0, 4)
    assert orders.files("landing/orders") == list(NAMES)


def test_what_spark_has_purged_cannot_be_gone_back_to(orders: LandedFiles) -> None:
    """Batches come faster than assumed: the oldest that is held is younger than the window."""
    for name in ("offsets/0", "commits/0"):
        orders.store.delete(f"{orders.checkpoint}/{name}")
    orders.read("z.json")
    # The entries are now newer than the window. Only the files are older.
    entries = f"{orders.checkpoint}/sources/0"
    for file in orders.store.list_files(entries):
        head, *lines = (orders.store.read(file.path) or b"").decode().split("\n")
        old = [json.dumps({**json.loads(line), "timestamp": 1}) for line in lines]
        orders.store.write(file.path, "\n".join([head, *old]).encode())
    found = clean(orders.resolved, after=timedelta(0))["streams"]["source"]
    # Batch 1 needs batch 0's offsets to be gone back to, so batch 2 is the oldest one.
    assert (found["files"], found["not_read_for_good"]) == (0, 0)
    assert found["stays"] == {"changed since they were read": 4}


def test_a_backup_keeps_what_was_read_after_it(archiving: LandedFiles) -> None:
    pipeline = archiving.resolved
    taken = take_backup(archiving.store, pipeline, BackupRequest("ann", "before a change", datetime.now(UTC)))
    archiving.read("z.json")
    archiving.land("e.json")
    plan = clean(pipeline)
    assert plan["streams"]["source"]["stays"] == {f"needed by backup {taken.backup}": 1}
    assert archiving.files("archived/landing/orders") == list(NAMES[:3])


def test_an_older_generation_keeps_what_it_has_not_read(archiving: LandedFiles) -> None:
    layout = archiving.resolved.layout
    second = replace(archiving, generation="g0002")
    new = Current(pipeline="orders", number=2, generation="g0002", why="a reset")
    assert switch_generation(archiving.store, layout, new)
    second.read(*NAMES)
    plan = clean(second.resolved)
    assert plan["streams"]["source"]["stays"] == {"needed by g0001": 1}
    assert second.files("landing/orders") == ["z.json"]
    archiving.store.delete_folder(archiving.checkpoint)
    second.land("e.json")
    clean(second.resolved)
    assert second.files("landing/orders") == ["e.json"]


def test_a_plan_of_another_generation_takes_nothing_away(orders: LandedFiles) -> None:
    with pytest.raises(Killed):
        clean(orders.resolved, step_done=killed_at("journal"))
    new = Current(pipeline="orders", number=2, generation="g0002", why="by hand")
    assert switch_generation(orders.store, orders.resolved.layout, new)
    clean(orders.resolved)
    assert orders.files("landing/orders") == list(NAMES)
    assert gone(orders) == []


def test_nothing_goes_while_checkpoint_and_table_do_not_agree(orders: LandedFiles) -> None:
    orders.read("z.json", is_written=False)
    with pytest.raises(GateRefusedError):
        clean(orders.resolved)
    assert orders.files("landing/orders") == list(NAMES)


def test_a_file_that_was_written_again_stays(orders: LandedFiles) -> None:
    entry = f"{orders.checkpoint}/sources/0/0"
    head, line = (orders.store.read(entry) or b"").decode().split("\n")
    earlier = {**json.loads(line), "timestamp": json.loads(line)["timestamp"] - 2000}
    orders.store.write(entry, f"{head}\n{json.dumps(earlier)}".encode())
    assert clean(orders.resolved)["streams"]["source"]["stays"] == {"changed since they were read": 1}
    assert orders.files("landing/orders") == ["a.json", "z.json"]


def test_what_was_archived_comes_back_for_a_new_beginning(archiving: LandedFiles) -> None:
    clean(archiving.resolved)
    plan = plan_bring_back(archiving.store, archiving.resolved, without_missing=False)
    assert (plan["source"]["archived"], plan["source"]["deleted"]) == (3, 0)
    for _ in range(2):
        bring_back_step(archiving.resolved).act({})
        assert archiving.files("landing/orders") == list(NAMES)
        assert archiving.files("archived/landing/orders") == []
    assert plan_bring_back(archiving.store, archiving.resolved, without_missing=False) == {}


def test_a_file_in_the_way_of_an_archived_one_is_told_and_neither_is_lost(archiving: LandedFiles) -> None:
    clean(archiving.resolved)
    other = f"{archiving.store.root}/landing/orders/a.json"
    archiving.store.write(other, b"another one")
    with pytest.raises(UsageError) as refused:
        plan_bring_back(archiving.store, archiving.resolved, without_missing=False)
    assert (refused.value.error_id, refused.value.facts["count"]) == ("TIDE-FILE-004", 1)
    assert (
        plan_bring_back(archiving.store, archiving.resolved, without_missing=True)["source"]["archived"] == 2
    )
    bring_back_step(archiving.resolved).act({})
    assert archiving.store.read(other) == b"another one"
    assert archiving.files("archived/landing/orders") == ["a.json"]


def test_deleted_files_forbid_a_new_beginning_until_somebody_agrees_or_puts_them_back(
    store_place: StorePlace,
) -> None:
    orders = three_read(LandedFiles.on(store_place, "delete"))
    clean(orders.resolved)
    with pytest.raises(UsageError) as refused:
        plan_bring_back(orders.store, orders.resolved, without_missing=False)
    assert (refused.value.error_id, refused.value.facts["deleted"]) == ("TIDE-FILE-004", 3)
    agreed = plan_bring_back(orders.store, orders.resolved, without_missing=True)
    assert agreed["source"]["deleted"] == 3
    orders.store.write(f"{orders.store.root}/landing/orders/a.json", b"another one of that name")
    with pytest.raises(UsageError) as refused:
        plan_bring_back(orders.store, orders.resolved, without_missing=False)
    assert refused.value.facts["deleted"] == 3
    orders.land(*NAMES[:3])
    stored = stored_files(orders.resolved.layout, "landing/orders")
    assert deleted_files(orders.store, orders.resolved, "source", stored) == []
    assert plan_bring_back(orders.store, orders.resolved, without_missing=False) == {}


def test_a_pipeline_that_never_ran_leaves_its_files(store_place: StorePlace) -> None:
    orders = LandedFiles.on(store_place)
    orders.land(*NAMES)
    assert clean(orders.resolved, after=30 * DAY)["left"] == "it has never run"
    assert orders.files("landing/orders") == list(NAMES)
