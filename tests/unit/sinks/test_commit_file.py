"""Commits that are written and read by their names, and those that are left to the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from tests.support.commits import commit_of
from tidemill.sinks.commit_file import CommitFile, adding_files
from tidemill.sinks.library_commit import CHECKPOINT_EVERY
from tidemill.sinks.log_view import FOLLOWED_AT_MOST, LogView
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import PartFile, write_part

COLUMNS = pa.schema([("id", pa.int64())])
INFO = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}


def part(table: str, batch_id: int) -> PartFile:
    rows = pa.RecordBatch.from_pydict({"id": [batch_id]}, schema=COLUMNS)
    written = write_part(table, f"part-{batch_id}.parquet", COLUMNS, [rows])
    assert written is not None
    return written


def append(log: TableLog, *batches: int) -> None:
    for batch_id in batches:
        assert log.commit([part(log.path, batch_id)], commit_of(batch_id), COLUMNS).committed


def info_of(table: str, version: int) -> dict[str, Any]:
    lines = Path(table, f"_delta_log/{version:020}.json").read_text().splitlines()
    return next(action["commitInfo"] for action in map(json.loads, lines) if "commitInfo" in action)


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    log = TableLog(str(tmp_path / "orders"))
    log.create(COLUMNS)
    return log


def test_a_commit_says_what_delta_asks_of_one_that_adds_files() -> None:
    commit = commit_of(3)
    content = adding_files([PartFile("day=a b/part-1.parquet", 10, 2, '{"numRecords": 2}')], commit, 1700)
    info, add, transaction = (json.loads(line) for line in content.splitlines())
    assert info["commitInfo"]["userMetadata"] == commit.entry.to_text()
    assert (info["commitInfo"]["operation"], info["commitInfo"]["timestamp"]) == ("WRITE", 1700)
    assert add == {
        "add": {
            "path": "day=a%20b/part-1.parquet",
            "partitionValues": {},
            "size": 10,
            "modificationTime": 1700,
            "dataChange": True,
            "stats": '{"numRecords": 2}',
        }
    }
    assert transaction == {"txn": {"appId": commit.app_id, "version": 3, "lastUpdated": 1700}}


def test_a_commit_is_read_as_it_was_written() -> None:
    commit = commit_of(3)
    found = CommitFile.read(7, adding_files([], commit, 1700))
    assert found is not None
    assert (found.commit.version, found.commit.entry, found.commit.operation) == (7, commit.entry, "WRITE")
    assert found.transactions == {commit.app_id: 3}


@pytest.mark.parametrize(
    "lines",
    [
        [INFO, {"metaData": {"id": "m"}}],
        [INFO, {"protocol": {"minReaderVersion": 3}}],
        [INFO, {"domainMetadata": {"domain": "delta.clustering"}}],
        [{"add": {"path": "a.parquet"}}],
        [{"commitInfo": {"operation": "WRITE"}}],
        [INFO, {"txn": {"appId": "a"}}],
    ],
    ids=["columns", "protocol", "domain", "no word of it", "no time", "no version"],
)
def test_a_commit_that_does_more_than_change_rows_is_read_by_the_library(lines: list[Any]) -> None:
    assert CommitFile.read(1, "\n".join(map(json.dumps, lines)).encode()) is None


@pytest.mark.parametrize("content", [b"", b'{"commitInfo": {"times', b"\xff\xfe", b"null", b"7"])
def test_a_damaged_commit_is_left_to_the_library(content: bytes) -> None:
    assert CommitFile.read(1, content) is None


def test_the_log_is_listed_once_for_each_log_checkpoint(
    log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 0)
    opened = []
    opening = LogView.__init__

    def counted(self: LogView, path: str) -> None:
        opened.append(log._version())
        opening(self, path)

    monkeypatch.setattr(LogView, "__init__", counted)
    append(log, *range(1, CHECKPOINT_EVERY + 10))
    assert opened == [CHECKPOINT_EVERY - 2]
    assert Path(log.path, f"_delta_log/{CHECKPOINT_EVERY - 1:020}.checkpoint.parquet").exists()
    # A reader that lists sees each row once.
    table = DeltaTable(log.path)
    assert table.version() == CHECKPOINT_EVERY + 10
    assert len(table.file_uris()) == CHECKPOINT_EVERY + 10


def test_a_writer_that_fell_far_behind_catches_up(log: TableLog) -> None:
    behind = TableLog(log.path)
    first, second = commit_of(0, pipeline="other"), commit_of(1, pipeline="other")
    behind.commit([], first, COLUMNS)
    append(log, *range(FOLLOWED_AT_MOST + 20))
    assert behind.look(second) is None
    assert behind.commit([], second, COLUMNS).version == FOLLOWED_AT_MOST + 22


def test_a_table_whose_features_ask_more_of_a_commit_is_left_to_the_library(log: TableLog) -> None:
    append(log, 0)
    DeltaTable(log.path).alter.add_feature(
        TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True
    )
    append(log, 1)
    DeltaTable(log.path).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    append(log, 2)
    by = {version: info_of(log.path, version)["engineInfo"].partition(":")[0] for version in (1, 3, 5)}
    assert by == {1: "tidemill", 3: "tidemill", 5: "delta-rs"}
    assert DeltaTable(log.path).transaction_version(commit_of(2).app_id) == 2


def test_a_table_that_wants_log_checkpoints_more_often_gets_them(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path / "orders"), {"delta.checkpointInterval": "5"})
    log.create(COLUMNS)
    append(log, *range(12))
    found = sorted(int(file.name[:20]) for file in Path(log.path, "_delta_log").glob("*.checkpoint.parquet"))
    assert found == [4, 9]
