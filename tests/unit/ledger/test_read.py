"""The commits of a table, as a view of it sees them, however many others make meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.commits import commit_of
from tidemill.ledger.read import commits_of, open_table
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
