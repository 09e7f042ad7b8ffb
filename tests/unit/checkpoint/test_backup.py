"""Backup: a whole checkpoint of one batch, also while its stream writes and deletes."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.busy_store import SNAPSHOT_EVERY, BusyStore
from tests.support.commits import TABLE
from tests.support.declared import declared
from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import BaseTable, read_or_create_current
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.verbs.backup import BackupRequest, plan_backup, take_backup
from tidemill.checkpoint.verbs.backup_manifest import Manifest, read_manifest, read_manifests
from tidemill.checkpoint.verbs.whole_copy import ATTEMPTS, copy_problems
from tidemill.errors import DataError, GateRefusedError, UsageError

REQUEST = BackupRequest("ann", "nightly", datetime(2026, 3, 1, 4, 5, 6, tzinfo=UTC))
NAME = "20260301t040506000000z"


@pytest.fixture
def orders(store_place: StorePlace) -> PipelineOnDisk:
    return PipelineOnDisk(store_place).ran(3)


def test_a_backup_holds_the_checkpoint_and_says_where_the_tables_stood(orders: PipelineOnDisk) -> None:
    taken = take_backup(orders.store, orders.resolved, REQUEST)
    assert (taken.backup, taken.generation, taken.batch_id, taken.query_id) == (NAME, "g0001", 2, "2f1c")
    assert taken.tables == {TABLE: BaseTable(id=orders.table_id, version=3)}
    live = {name.removeprefix("g0001/") for name in orders.files if name.startswith("g0001/")}
    assert set(taken.files) == live
    for name, noted in taken.files.items():
        copy = orders.store.read(f"{orders.state}/backups/{NAME}/checkpoint/{name}")
        original = orders.store.read(f"{orders.state}/g0001/{name}")
        assert copy is not None
        assert original is not None
        # `metadata` is written, because a generation begins with a new id. All other files are copied.
        assert copy == original or (name == "metadata" and json.loads(copy) == json.loads(original))
        assert (noted.size, noted.sha256) == (len(copy), hashlib.sha256(copy).hexdigest())
    assert read_manifest(orders.store, orders.resolved.layout, "orders", NAME) == taken
    [audit] = read_audit(orders.store, orders.resolved.layout)
    assert (audit.verb, audit.request_id, audit.by) == ("backup", NAME, "ann")


def test_what_is_newer_than_the_newest_commit_is_left_out(orders: PipelineOnDisk) -> None:
    orders.store.write(f"{orders.state}/g0001/offsets/3", b"v1\n{}")
    orders.store.write(f"{orders.state}/g0001/state/0/0/4.delta", b"newer")
    orders.store.write(f"{orders.state}/g0001/.hidden.crc", b"twin")
    orders.commit(3)
    taken = take_backup(orders.store, orders.resolved, REQUEST)
    assert (taken.batch_id, taken.tables[TABLE].version) == (2, 3)
    assert not {"offsets/3", "state/0/0/4.delta", ".hidden.crc"} & set(taken.files)


def test_a_plan_writes_nothing(orders: PipelineOnDisk) -> None:
    before = orders.files
    plan = plan_backup(orders.store, orders.resolved)
    assert (plan["generation"], plan["batch_id"]) == ("g0001", 2)
    assert orders.files == before


def test_without_a_committed_batch_there_is_nothing_to_back_up(store_place: StorePlace) -> None:
    empty = PipelineOnDisk(store_place)
    with pytest.raises(UsageError) as refused:
        take_backup(empty.store, empty.resolved, REQUEST)
    assert refused.value.error_id == "TIDE-CKPT-048"


@pytest.mark.parametrize("lost", ["offsets/2", "metadata"])
def test_a_damaged_checkpoint_is_refused_and_leaves_no_backup(orders: PipelineOnDisk, lost: str) -> None:
    orders.store.delete(f"{orders.state}/g0001/{lost}")
    with pytest.raises(GateRefusedError) as refused:
        take_backup(orders.store, orders.resolved, REQUEST)
    assert refused.value.error_id == "TIDE-CKPT-049"
    assert lost in str(refused.value.facts["missing"])
    assert read_manifests(orders.store, orders.resolved.layout, "orders") == []


def test_a_torn_file_is_refused(orders: PipelineOnDisk) -> None:
    orders.store.write(f"{orders.state}/g0001/commits/2", b"v1")
    with pytest.raises(GateRefusedError) as refused:
        take_backup(orders.store, orders.resolved, REQUEST)
    assert refused.value.error_id == "TIDE-CKPT-049"


def test_a_folder_without_a_manifest_is_no_backup(orders: PipelineOnDisk) -> None:
    taken = take_backup(orders.store, orders.resolved, REQUEST)
    layout = orders.resolved.layout
    orders.store.delete(f"{layout.backups('orders')}/{taken.backup}/manifest.json")
    assert read_manifests(orders.store, layout, "orders") == []
    with pytest.raises(UsageError) as refused:
        read_manifest(orders.store, layout, "orders", taken.backup)
    assert refused.value.error_id == "TIDE-CKPT-046"


def test_a_damaged_manifest_is_said_to_be_one(orders: PipelineOnDisk) -> None:
    layout = orders.resolved.layout
    orders.store.write(f"{layout.backups('orders')}/x/manifest.json", b"{}")
    with pytest.raises(DataError) as refused:
        read_manifest(orders.store, layout, "orders", "x")
    assert refused.value.error_id == "TIDE-CKPT-047"
    assert read_manifests(orders.store, layout, "orders") == []


@pytest.mark.parametrize("seed", range(30))
def test_a_backup_of_a_stream_that_goes_on_is_whole(tmp_path: Path, seed: int) -> None:
    taken, store, folder = backup_under_load(tmp_path, seed, retained=20, most_steps=2)
    state_version = taken.batch_id + 1
    assert {f"offsets/{taken.batch_id}", f"commits/{taken.batch_id}", "metadata"} <= set(taken.files)
    assert copy_problems(store, folder, taken.batch_id, taken.files) == []
    for partition in range(2):
        # Files that Spark reads to load the state, computed without the code under test.
        snapshot = state_version // SNAPSHOT_EVERY * SNAPSHOT_EVERY
        whole = {f"state/0/{partition}/{snapshot}.snapshot"} if snapshot else set()
        changes = {f"state/0/{partition}/{v}.delta" for v in range(snapshot + 1, state_version + 1)}
        assert whole | changes <= set(taken.files) or earlier_chain(taken, partition)
    assert not [name for name in taken.files if newer_than(taken.batch_id, name)]


def test_a_stream_that_outruns_every_copy_is_refused_not_copied_in_part(tmp_path: Path) -> None:
    with pytest.raises(GateRefusedError) as refused:
        backup_under_load(tmp_path, seed=1, retained=1, most_steps=60)
    assert refused.value.error_id == "TIDE-CKPT-049"
    assert ATTEMPTS > 1


def backup_under_load(
    folder: Path, seed: int, retained: int, most_steps: int
) -> tuple[Manifest, BusyStore, str]:
    # There is no table, because another test covers the versions of tables.
    pipeline = declared(folder, sinks=[{"console": {}}])
    layout = pipeline.layout
    store = BusyStore(layout.root, layout.checkpoint("orders", "g0001"), seed, retained, most_steps)
    read_or_create_current(store, layout, "orders")
    taken = take_backup(store, pipeline, REQUEST)
    return taken, store, f"{layout.backups('orders')}/{taken.backup}/checkpoint"


def earlier_chain(taken: Manifest, partition: int) -> bool:
    """Return True if the backup has the snapshot before the newest one, and all changes since."""
    version = taken.batch_id + 1
    snapshot = version // SNAPSHOT_EVERY * SNAPSHOT_EVERY - SNAPSHOT_EVERY
    changes = {f"state/0/{partition}/{v}.delta" for v in range(max(0, snapshot) + 1, version + 1)}
    return (snapshot <= 0 or f"state/0/{partition}/{snapshot}.snapshot" in taken.files) and changes <= set(
        taken.files
    )


def newer_than(batch_id: int, name: str) -> bool:
    folder, _, last = name.rpartition("/")
    number = last.partition(".")[0]
    if not number.isdecimal() or folder.startswith("sources"):
        return False
    return int(number) > batch_id + (0 if folder in ("offsets", "commits") else 1)
