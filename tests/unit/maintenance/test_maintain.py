"""Maintenance of a real Delta table keeps rows and needed files, wherever it is interrupted."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from tests.support.pipelines_on_disk import Killed
from tests.support.small_files import SmallFiles
from tidemill.checkpoint.current import BaseTable
from tidemill.checkpoint.procedure.journal import JournalEntry, create_entry
from tidemill.checkpoint.verbs.backup_manifest import Manifest
from tidemill.ledger.read import read_commits
from tidemill.storage.store import Store

BATCHES = 20
# Version 0 makes the table.
NEWEST = BATCHES


@pytest.fixture
def orders(tmp_path: Path) -> SmallFiles:
    made = SmallFiles(tmp_path)
    made.write(BATCHES)
    return made


def offset(version: int, table_id: str, *, snapshot: bool = False) -> dict[str, object]:
    return {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": snapshot,
    }


def test_small_files_become_one_and_the_stream_goes_on(orders: SmallFiles) -> None:
    before = orders.ids()
    report = orders.maintain()
    assert report.failed == []
    assert report.done[:2] == ["small files: 20 put together into 1", "log checkpoint: made at version 21"]
    assert len(orders.delta.file_uris()) == 1
    assert orders.ids() == before == list(range(BATCHES))
    # The writer that had the table open all the time.
    orders.write(1)
    assert orders.ids() == list(range(BATCHES + 1))
    newest, maintenance, *older = read_commits(orders.path)
    assert (newest.entry is not None, newest.entry and newest.entry.batch_id) == (True, BATCHES)
    assert (maintenance.operation, maintenance.changes_no_row) == ("OPTIMIZE", True)
    assert [c.entry.batch_id for c in older if c.entry is not None] == list(reversed(range(BATCHES)))


def test_nothing_that_is_younger_than_the_retention_is_deleted(orders: SmallFiles) -> None:
    report = orders.maintain()
    assert report.deleted == 0
    assert len(orders.data_files()) == BATCHES + 1
    assert orders.ids(3) == [0, 1, 2]


def test_what_was_put_together_goes_after_the_retention_and_so_do_leftovers(orders: SmallFiles) -> None:
    orders.maintain()
    leftover = Path(orders.path) / "part-of-a-killed-attempt.parquet"
    leftover.write_bytes(b"left")
    strange = Path(orders.path) / "notes.txt"
    strange.write_bytes(b"kept")
    orders.age(8)
    orders.write(2)
    report = orders.maintain()
    assert report.deleted == BATCHES + 1
    assert not leftover.exists()
    assert strange.exists()
    assert orders.ids() == list(range(BATCHES + 2))
    # The newest version of a week ago.
    assert orders.ids(NEWEST + 1) == list(range(BATCHES))


def test_files_removed_within_the_retention_stay_however_old_they_are(orders: SmallFiles) -> None:
    orders.age(30)
    orders.maintain()
    # The compaction was just now: until then the newest version was of those files.
    assert orders.maintain().deleted == 0
    assert orders.ids(NEWEST) == list(range(BATCHES))


def test_files_that_were_there_for_a_time_within_the_retention_stay(orders: SmallFiles) -> None:
    """Old files brought back by a RESTORE and removed again: in neither the oldest nor the newest version."""
    orders.delta.optimize.compact()
    orders.age(8)
    orders.delta.restore(NEWEST)
    orders.delta.optimize.compact()
    assert orders.maintain().deleted == 0
    assert orders.ids(NEWEST + 2) == list(range(BATCHES))


def test_the_version_of_a_backup_stays_readable(orders: SmallFiles) -> None:
    manifest = Manifest(
        backup="20260301t000000000000z",
        pipeline="orders",
        generation="g0001",
        batch_id=11,
        query_id="2f1c",
        taken_at=datetime.now(UTC) - timedelta(days=20),
        by="ann",
        why="nightly",
        tables={"bronze/orders": BaseTable(id=orders.table_id, version=12)},
        files={},
    )
    folder = f"{orders.layout.backups('orders')}/{manifest.backup}"
    orders.store.create_json(f"{folder}/manifest.json", manifest.model_dump(mode="json"))
    orders.delta.optimize.compact()
    orders.age(20)
    report = orders.maintain()
    assert f"versions from 12 on stay readable: backup {manifest.backup} of orders" in report.done[-1]
    assert orders.ids(12) == list(range(12))
    assert orders.ids(NEWEST) == list(range(BATCHES))
    Path(f"{folder}/manifest.json").unlink()
    assert orders.maintain().deleted == BATCHES


@pytest.mark.parametrize("snapshot", [False, True])
def test_what_a_lagging_reader_comes_to_next_stays(orders: SmallFiles, snapshot: bool) -> None:
    orders.declare("late_reader", "{delta: {table: bronze/orders}}", "silver/orders")
    orders.delta.optimize.compact()
    orders.age(20)
    orders.checkpointed("late_reader", 0.1, offset(5, orders.table_id, snapshot=snapshot))
    report = orders.maintain()
    assert "versions from 4 on stay readable: the oldest batch of g0001 of late_reader" in report.done[-1]
    assert orders.ids(4) == list(range(4))
    # Another table of that name, or one that it has read beyond, keeps nothing.
    orders.checkpointed("late_reader", 0.1, offset(5, "another"))
    assert orders.maintain().deleted == BATCHES


def test_a_reader_that_is_not_declared_any_more_counts_as_long_as_its_state_is_there(
    orders: SmallFiles,
) -> None:
    orders.delta.optimize.compact()
    orders.age(20)
    orders.checkpointed("gone", 0.1, offset(5, orders.table_id))
    assert orders.plan().decision.floor.version == 4


def test_a_rewind_finds_what_it_brings_back(orders: SmallFiles) -> None:
    orders.delta.optimize.compact()
    orders.age(20)
    orders.checkpointed("orders", 20.5, {"orders": {"0": 10}})
    report = orders.maintain()
    assert report.deleted == 0
    assert "the oldest batch of g0001 of orders" in report.done[-1]
    assert orders.ids(1) == [0]


def test_a_declared_start_in_the_past_counts_until_the_reader_has_begun(orders: SmallFiles) -> None:
    source = "{delta: {table: bronze/orders, starting_version: 7}}"
    orders.declare("new_reader", source, "silver/orders")
    orders.age(20)
    assert orders.plan().decision.floor.version == 6


def test_a_request_that_has_not_ended_stops_deletion_and_nothing_else(orders: SmallFiles) -> None:
    orders.delta.optimize.compact()
    orders.age(20)
    entry = JournalEntry(
        verb="rewind", pipeline="orders", request_id="r-1", by="ann", why="x", plan={}, steps=("a",)
    )
    assert create_entry(orders.store, orders.layout, entry)
    report = orders.maintain()
    assert report.deleted == 0
    assert "nothing may be deleted: request r-1 of orders" in report.done[-1]
    assert "log checkpoint: made at version 21" in report.done


def test_a_pipeline_that_cannot_be_read_might_need_anything(orders: SmallFiles) -> None:
    orders.age(20)
    orders.project.write("conf/pipelines/broken.yaml", "descripton: a typo")
    assert orders.plan().decision.floor.version is None


@pytest.mark.parametrize("step", ["compacted", "checkpoint", "data file deleted", "log file deleted"])
def test_cut_short_anywhere_and_repeated_it_comes_to_the_same(
    orders: SmallFiles, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.delta.optimize.compact()
    orders.delta.create_checkpoint()
    orders.write(BATCHES)
    orders.age(40)

    # The compaction itself would clean up the log.
    monkeypatch.setattr("tidemill.ledger.small_files.MIN_SMALL_FILES", 1 if step == "compacted" else 99)

    def die(done: str) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        orders.maintain(die)
    assert orders.ids() == list(range(2 * BATCHES))
    report = orders.maintain()
    assert report.failed == []
    assert orders.ids() == list(range(2 * BATCHES))
    assert orders.maintain().deleted == 0
    # All files from before the first compaction are deleted. The second compaction is too recent.
    assert len(orders.data_files()) == 1 + BATCHES + (step == "compacted")
    last = 2 * BATCHES + 1
    # The newest checkpoint of those that are old enough.
    assert orders.commit_files()[0] == (NEWEST + 1 if step == "compacted" else last)
    assert orders.ids(last) == list(range(2 * BATCHES))
    orders.write(1)
    assert orders.ids() == list(range(2 * BATCHES + 1))


def test_a_compaction_whose_commit_would_clean_up_too_much_is_left(orders: SmallFiles) -> None:
    orders.delta.create_checkpoint()
    orders.declare("late_reader", "{delta: {table: bronze/orders}}", "silver/orders")
    orders.checkpointed("late_reader", 0.1, offset(5, orders.table_id))
    orders.age(40)
    report = orders.maintain()
    assert report.done[0].startswith("small files: its commit would remove expired log files that are needed")
    assert orders.commit_files() == list(range(NEWEST + 1))
    assert orders.ids(4) == list(range(4))


def test_the_newest_batch_of_a_quiet_table_stays_in_its_ledger(orders: SmallFiles) -> None:
    """A driver that finds its last batch's commit gone takes the batch for taken out, and refuses."""
    orders.maintain()
    orders.age(60)
    assert orders.plan().log_files == ()
    orders.maintain()
    assert orders.commit_files() == list(range(NEWEST + 2))
    orders.write(1)
    assert orders.ids() == list(range(BATCHES + 1))


def test_a_writer_beside_it_loses_nothing(orders: SmallFiles) -> None:
    done = threading.Event()

    def compact() -> None:
        while not done.is_set():
            orders.maintain()

    def compactions() -> int:
        return sum(commit.operation == "OPTIMIZE" for commit in read_commits(orders.path))

    written = 0
    beside = threading.Thread(target=compact)
    beside.start()
    try:
        # A writer that never rests wins most of the races.
        while written < 1000 and (written < 100 or compactions() < 2):
            orders.write(20)
            written += 20
    finally:
        done.set()
        beside.join()
    assert compactions() > 1
    assert orders.maintain().failed == []
    assert orders.ids() == list(range(BATCHES + written))


def test_a_race_that_another_writer_wins_is_said_and_is_no_failure(
    orders: SmallFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: str) -> str:
        raise CommitFailedError("Failed to commit transaction: 15")

    monkeypatch.setattr("tidemill.maintenance.maintain._compact", lose)
    report = orders.maintain()
    assert report.failed == []
    assert report.done[0] == "small files: left, because another writer was first; the next run tries again"


def test_a_clustered_table_is_left_alone(orders: SmallFiles) -> None:
    protocol = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["clustering", "domainMetadata"],
    }
    info = {"timestamp": 1, "operation": "CLUSTER BY"}
    lines = [json.dumps({"commitInfo": info}), json.dumps({"protocol": protocol})]
    Store(orders.path).write(f"{orders.path}/_delta_log/{NEWEST + 1:020}.json", "\n".join(lines).encode())
    orders.age(40)
    files = orders.data_files()
    report = orders.maintain()
    assert report.done == [
        "small files: needs Spark: clustering, domainMetadata",
        "nothing may be deleted: needs Spark: clustering, domainMetadata",
    ]
    assert orders.data_files() == files
    assert orders.delta.version() == NEWEST + 1


def test_without_approval_nothing_is_deleted(orders: SmallFiles) -> None:
    orders.delta.optimize.compact()
    orders.age(8)
    report = orders.maintain(may_delete=False)
    assert report.done[-1].startswith("not approved, so not deleted: 20 data files and 0 log files")
    assert len(orders.data_files()) == BATCHES + 1


def test_a_plan_changes_nothing(orders: SmallFiles) -> None:
    orders.delta.optimize.compact()
    orders.age(8)
    files, version = orders.data_files(), orders.delta.version()
    plan = orders.plan()
    assert (plan.has_work, len(plan.files)) == (True, BATCHES)
    assert (orders.data_files(), orders.delta.version()) == (files, version)
