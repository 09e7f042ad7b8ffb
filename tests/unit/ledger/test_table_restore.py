"""Restoring a table: once for each request, never over the rows of others, and closed to the old side."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.commits import commit_of
from tidemill.errors import GateRefusedError
from tidemill.ledger.read import read_commits, transaction_version
from tidemill.ledger.table_restore import CLOSED, TableRestore, restore_through_delta_rs
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import write_part

COLUMNS = pa.schema([("id", pa.int64())])
APP = commit_of(0).app_id


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Version 0 creates it, version N + 1 is batch N of four."""
    path = str(tmp_path / "orders")
    for batch_id in range(4):
        commit(path, batch_id)
    return path


def commit(path: str, batch_id: int, pipeline: str = "orders") -> bool:
    log = TableLog(path)
    log.create(COLUMNS)
    rows = pa.RecordBatch.from_arrays([pa.array([batch_id])], schema=COLUMNS)
    part = write_part(path, f"{pipeline}-{batch_id}.parquet", COLUMNS, [rows])
    assert part is not None
    return log.commit([part], commit_of(batch_id, pipeline=pipeline), COLUMNS).committed


def batches(path: str) -> list[int]:
    """Numbers in the names of the newest version's files."""
    return sorted(
        int(uri.rpartition("-")[2].removesuffix(".parquet")) for uri in DeltaTable(path).file_uris()
    )


def wanted(path: str, version: int = 2, known: int | None = 4, request_id: str = "rewind-1") -> TableRestore:
    return TableRestore(path, version, request_id, known, (APP,))


def test_a_request_restores_once(table: str) -> None:
    for _ in range(3):
        restore_through_delta_rs(wanted(table))
    assert batches(table) == [0, 1]
    assert [c.operation for c in read_commits(table, 2)] == ["RESTORE", "WRITE"]


def test_another_request_restores_again(table: str) -> None:
    restore_through_delta_rs(wanted(table))
    restore_through_delta_rs(wanted(table, version=1, known=5, request_id="rewind-2"))
    assert batches(table) == [0]


def test_the_old_side_is_closed_by_the_same_commit(table: str) -> None:
    restore_through_delta_rs(wanted(table))
    assert transaction_version(table, APP) == CLOSED
    assert DeltaTable(table).version() == 5
    assert not commit(table, 4)


def test_rows_of_others_that_came_since_are_not_taken_back(table: str) -> None:
    commit(table, 7, pipeline="returns")
    with pytest.raises(GateRefusedError) as refused:
        restore_through_delta_rs(wanted(table))
    assert (refused.value.error_id, refused.value.facts["count"]) == ("TIDE-CKPT-040", 1)
    assert batches(table) == [0, 1, 2, 3, 7]


def test_rows_written_by_hand_are_not_taken_back(table: str) -> None:
    write_deltalake(table, pa.table({"id": [99]}), mode="append")
    with pytest.raises(GateRefusedError) as refused:
        restore_through_delta_rs(wanted(table))
    assert refused.value.error_id == "TIDE-CKPT-040"


def test_a_version_that_never_was_is_refused(table: str) -> None:
    with pytest.raises(GateRefusedError) as refused:
        restore_through_delta_rs(wanted(table, version=99, known=None))
    assert refused.value.error_id == "TIDE-CKPT-072"
    assert refused.value.facts["version"] == 99


def test_a_dropped_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GateRefusedError) as refused:
        restore_through_delta_rs(wanted(str(tmp_path / "nothing")))
    assert refused.value.error_id == "TIDE-CKPT-072"


def test_a_table_that_only_spark_writes_is_left_to_spark(table: str) -> None:
    first = Path(table) / "_delta_log" / f"{0:020}.json"
    features = '"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["clustering","domainMetadata"]'
    first.write_text(first.read_text().replace('"minReaderVersion":1,"minWriterVersion":2', features))
    with pytest.raises(GateRefusedError) as refused:
        restore_through_delta_rs(wanted(table))
    assert refused.value.error_id == "TIDE-CKPT-073"
    assert refused.value.facts["features"] == "clustering, domainMetadata"


# Rounds of the race below: each ends within a few milliseconds, and both orders happen among them.
ROUNDS = 20


def test_a_fenced_driver_that_commits_at_the_same_moment_never_survives(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        path = str(tmp_path / f"orders-{number}")
        for batch_id in range(4):
            commit(path, batch_id)
        together = Barrier(2)

        def write(path: str = path, together: Barrier = together) -> None:
            together.wait()
            commit(path, 4)

        zombie = Thread(target=write)
        zombie.start()
        together.wait()
        restore_through_delta_rs(wanted(path))
        zombie.join()
        assert batches(path) == [0, 1]
