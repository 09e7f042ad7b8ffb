"""Decisions of a table's maintenance: the oldest needed version, to the commit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemill.ledger.small_files import DataFile
from tidemill.maintenance.decide import (
    Need,
    TableFacts,
    data_file,
    decide,
    oldest_needed,
    unneeded_files,
)
from tidemill.maintenance.log_listing import LogListing, read_listing
from tidemill.storage.store import StoredFile

NOW = datetime(2026, 3, 31, tzinfo=UTC)
DAY = timedelta(days=1)


def listing(
    newest: int = 30, first: int = 0, checkpoints: tuple[int, ...] = (), newest_age: timedelta = timedelta()
) -> LogListing:
    """Return a commit a day."""
    commits = {v: NOW - newest_age - (newest - v) * DAY for v in range(first, newest + 1)}
    files = {f"/t/_delta_log/{v:020}.json": v for v in commits}
    files |= {f"/t/_delta_log/{v:020}.checkpoint.parquet": v for v in checkpoints}
    return LogListing(commits, dict.fromkeys(checkpoints, NOW), files)


def facts(**given: Any) -> TableFacts:
    known: dict[str, Any] = {"log": listing(), "files": (), "stored": ()}
    return TableFacts("bronze/orders", keeps_files=7 * DAY, keeps_log=30 * DAY, **{**known, **given})


@pytest.mark.parametrize(
    ("needs", "version", "because"),
    [
        # The newest version of a week ago, to the commit.
        ((), 23, "the retention of removed files"),
        ((Need("backup b", version=22),), 22, "backup b"),
        ((Need("backup b", version=24),), 23, "the retention of removed files"),
        ((Need("reader", version=22), Need("rewind", since=NOW - 9.5 * DAY)), 20, "rewind"),
        # A time before the log needs all versions that can be read.
        ((Need("rewind", since=NOW - 99 * DAY),), 0, "rewind"),
        # The next version, which is not there yet.
        ((Need("reader", version=31),), 23, "the retention of removed files"),
    ],
)
def test_the_oldest_needed_version_is_that_of_whoever_needs_the_oldest(
    needs: tuple[Need, ...], version: int, because: str
) -> None:
    floor = oldest_needed(facts(needs=needs), NOW)
    assert (floor.version, floor.because) == (version, because)


def test_a_table_at_rest_needs_its_newest_version_only() -> None:
    assert oldest_needed(facts(log=listing(newest_age=8 * DAY)), NOW).version == 30


def test_a_version_that_cannot_be_read_any_more_keeps_no_file() -> None:
    log = listing(first=12, checkpoints=(15, 20))
    assert oldest_needed(facts(log=log, needs=(Need("backup", version=3),)), NOW).version == 15


def test_commits_right_after_a_checkpoint_are_read_from_it() -> None:
    assert listing(first=16, checkpoints=(15,)).readable_from == 15
    assert listing(first=17, checkpoints=(15,)).readable_from is None


@pytest.mark.parametrize(
    "given",
    [
        {"unknown": ("request r of orders has not come to its end",)},
        {"unsupported": "clustering"},
        {"log": listing(first=5)},
    ],
)
def test_where_it_cannot_be_told_what_is_needed_nothing_is_deleted(given: dict[str, Any]) -> None:
    decision = decide(facts(**given), NOW)
    assert (decision.floor.version, decision.log_before) == (None, None)
    assert decision.floor.because


def test_times_that_do_not_rise_mean_an_older_version() -> None:
    commits = {0: NOW - 20 * DAY, 1: NOW - 1 * DAY, 2: NOW - 10 * DAY}
    assert LogListing(commits, {}, {}).version_at(NOW - 5 * DAY) == 0


def small(count: int, size: int = 1000, partition: str = "") -> tuple[DataFile, ...]:
    return tuple(DataFile(f"{partition}{n}.parquet", size, partition) for n in range(count))


@pytest.mark.parametrize(
    ("files", "unsupported", "compact", "left"),
    [
        (small(16), "", 16, ""),
        (small(15), "", 0, "15 small files are too few"),
        (small(400, 60 * 2**20), "", 0, "0 small files are too few"),
        (small(400, 40 * 2**20), "", 0, "needs Spark: 16777216000 bytes in small files"),
        (small(16), "clustering", 0, "needs Spark: clustering"),
        # One in each partition: there is nothing to put it together with.
        (
            tuple(f for n in range(50) for f in small(1, partition=f"day={n}")),
            "",
            0,
            "0 small files are too few",
        ),
        (tuple(f for n in range(9) for f in small(2, partition=f"day={n}")), "", 18, ""),
    ],
)
def test_small_files_are_put_together_where_that_is_worth_a_commit(
    files: tuple[DataFile, ...], unsupported: str, compact: int, left: str
) -> None:
    decision = decide(facts(files=files, unsupported=unsupported), NOW)
    assert (decision.compact, decision.compact_left) == (compact, left)


@pytest.mark.parametrize(
    ("log", "needs", "keeps_log", "before"),
    [
        # Older than the retention, and up to the checkpoint that the rest is read from.
        (listing(60, checkpoints=(10, 25, 31, 50)), (), 30 * DAY, 25),
        # A backup needs version 20, so its log also stays.
        (listing(60, checkpoints=(10, 25, 50)), (Need("backup", version=20),), 30 * DAY, 10),
        (listing(60), (), 30 * DAY, None),
        (listing(60, checkpoints=(10, 25)), (), None, None),
        (listing(60, first=25, checkpoints=(25,)), (), 30 * DAY, None),
        (listing(20, checkpoints=(10,)), (), 30 * DAY, None),
    ],
)
def test_the_log_goes_by_its_retention_and_no_further_than_what_is_needed(
    log: LogListing, needs: tuple[Need, ...], keeps_log: timedelta | None, before: int | None
) -> None:
    made = facts(log=log, needs=needs)
    decision = decide(TableFacts(**{**vars(made), "keeps_log": keeps_log}), NOW)
    assert decision.log_before == before


def test_a_file_goes_only_if_it_is_old_and_in_no_version() -> None:
    before = NOW - 7 * DAY
    stored = [
        StoredFile("/t/needed.parquet", 1, NOW - 9 * DAY),
        StoredFile("/t/old.parquet", 1, NOW - 9 * DAY),
        # Exactly as old as the retention: it stays.
        StoredFile("/t/boundary.parquet", 1, before),
        # A file of a commit that is in progress.
        StoredFile("/t/new.parquet", 1, NOW),
        StoredFile("/t/_symlink_format_manifest/m", 1, NOW - 9 * DAY),
    ]
    gone = unneeded_files(stored, "/t", {"needed.parquet"}, before)
    assert [file.path for file in gone] == ["/t/old.parquet"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", "a.parquet"),
        (".a.parquet.crc", "a.parquet"),
        ("day=1/.a.parquet.crc", "day=1/a.parquet"),
        ("_change_data/cdc-1.parquet", "_change_data/cdc-1.parquet"),
        # A partition by a column whose name begins with an underscore.
        ("_day=1/a.parquet", "_day=1/a.parquet"),
        ("_delta_index/a.parquet", None),
        (".a.parquet.tmp", None),
        ("_spark_metadata/0", None),
        ("notes.txt", None),
        ("deletion_vector_1.bin", None),
    ],
)
def test_only_what_delta_wrote_as_data_can_be_deleted(name: str, data: str | None) -> None:
    assert data_file(name) == data


def test_a_checkpoint_in_parts_counts_when_all_are_there() -> None:
    names = [
        "00000000000000000000.json",
        "00000000000000000001.json",
        "00000000000000000002.json",
        "00000000000000000001.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000001.checkpoint.0000000002.0000000002.parquet",
        "00000000000000000002.checkpoint.0000000001.0000000002.parquet",
        ".00000000000000000002.json.crc",
        "_last_checkpoint",
        "_sidecars/x.parquet",
    ]
    found = read_listing(StoredFile(f"/t/_delta_log/{name}", 1, NOW) for name in names)
    assert found is not None
    assert (set(found.commits), set(found.checkpoints), len(found.files)) == ({0, 1, 2}, {1}, 7)
    assert read_listing([]) is None
