"""The commits of a table as one view sees them, although other writers commit at the same time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.commits import commit_of
from tidemill.errors import DataError
from tidemill.ledger.read import commits_of, open_table, read_commits, read_ledger
from tidemill.sinks.table_log import TableLog

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    log = TableLog(str(tmp_path / "orders"))
    log.create(COLUMNS)
    log.commit([], commit_of(0), COLUMNS)
    return log


def viewed(log: TableLog) -> DeltaTable:
    table = open_table(log.path)
    assert table is not None
    return table


@pytest.mark.parametrize("limit", [None, 1, 2, 50])
@pytest.mark.parametrize("later", [0, 1, 7, 40])
def test_a_view_has_its_own_commits_whoever_has_written_since(
    log: TableLog, limit: int | None, later: int
) -> None:
    table = viewed(log)
    for batch_id in range(1, later + 1):
        log.commit([], commit_of(batch_id), COLUMNS)
    commits = commits_of(log.path, table, limit)
    assert [commit.version for commit in commits] == [1, 0][:limit]
    assert commits[0].entry == commit_of(0).entry.model_copy(update={"rows": 0})


@pytest.mark.parametrize("name", ["a#b", "a?b", " [x]{y}*;&+=:'\"`ü😀 100% "])
def test_commits_are_found_whatever_the_folder_is_called(tmp_path: Path, name: str) -> None:
    log = TableLog(str(tmp_path / name / "orders"))
    log.create(COLUMNS)
    log.commit([], commit_of(0), COLUMNS)
    assert [commit.version for commit in read_commits(log.path)] == [1, 0]
    assert [commit.version for commit in read_ledger(log.path)] == [1]


@pytest.fixture
def batches(log: TableLog) -> Path:
    """Return the log of versions 0 to 99."""
    for batch_id in range(1, 99):
        log.commit([], commit_of(batch_id), COLUMNS)
    return Path(log.path, "_delta_log")


def test_commits_end_where_the_log_was_cleared(log: TableLog, batches: Path) -> None:
    table = viewed(log)
    for version in range(30):
        (batches / f"{version:020}.json").unlink()
    assert [commit.version for commit in commits_of(log.path, table)] == list(range(99, 29, -1))
    assert [commit.version for commit in commits_of(log.path, table, 3)] == [99, 98, 97]


@pytest.mark.parametrize("version", [99, 40])
@pytest.mark.parametrize("content", [None, b'{"commitInfo": {"timest', b'{"commitInfo": {}}'])
def test_a_missing_or_damaged_commit_is_refused(
    log: TableLog, batches: Path, version: int, content: bytes | None
) -> None:
    table, file = viewed(log), batches / f"{version:020}.json"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError) as refused:
        commits_of(log.path, table)
    assert refused.value.error_id == "TIDE-LEDG-001"
    assert str(refused.value.facts["reason"]).startswith(f"version {version} is ")


def test_a_commit_without_a_word_of_itself_is_left_out(log: TableLog, batches: Path) -> None:
    (batches / f"{40:020}.json").write_bytes(b'{"txn": {"appId": "x", "version": 1}}\n')
    versions = [commit.version for commit in commits_of(log.path, viewed(log))]
    assert versions == [*range(99, 40, -1), *range(39, -1, -1)]
