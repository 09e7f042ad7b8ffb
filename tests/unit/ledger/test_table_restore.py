"""Restoring a table: once for each request, never over the rows of others, and closed to the old side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition
from typing import TypeVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.commits import TABLE, commit_of, handed_over
from tidemill.errors import FencedError, GateRefusedError
from tidemill.ledger import table_restore
from tidemill.ledger.read import read_commits, transaction_version
from tidemill.ledger.table_restore import CLOSED, TableRestore, restore_through_delta_rs
from tidemill.names import transaction_id
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import write_part

COLUMNS = pa.schema([("id", pa.int64())])
APP = commit_of(0).app_id

T = TypeVar("T")


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
    """Return numbers in the names of the newest version's files."""
    names = (uri.rpartition("-")[2].removesuffix(".parquet") for uri in DeltaTable(path).file_uris())
    return sorted(int(name) for name in names if len(name) == 1)


def wanted(path: str, version: int = 2, known: int = 4, request_id: str = "rewind-1") -> TableRestore:
    return handed_over(path, version, known, request_id)


def test_a_request_restores_once(table: str) -> None:
    for _ in range(3):
        restore_through_delta_rs(wanted(table))
    assert batches(table) == [0, 1]
    assert [c.operation for c in read_commits(table, 2)] == ["RESTORE", "WRITE"]


def test_another_request_restores_again(table: str) -> None:
    restore_through_delta_rs(wanted(table))
    restore_through_delta_rs(wanted(table, version=1, known=5, request_id="rewind-2"))
    assert batches(table) == [0]


def test_the_same_commit_closes_the_old_side_and_begins_the_new_one(table: str) -> None:
    restore_through_delta_rs(wanted(table))
    assert transaction_version(table, APP) == CLOSED
    assert transaction_version(table, transaction_id("orders", "g0002", TABLE)) == 1
    assert DeltaTable(table).version() == 5
    newest = read_commits(table, 1)[0]
    assert newest.entry is not None
    assert (newest.entry.mode, newest.entry.generation, newest.entry.batch_id) == ("base", "g0002", 1)
    with pytest.raises(FencedError) as fenced:
        commit(table, 4)
    assert fenced.value.error_id == "TIDE-RUN-003"


def test_where_nothing_goes_the_new_side_begins_without_a_restore(table: str) -> None:
    restore_through_delta_rs(wanted(table, version=4))
    write_deltalake(table, pa.table({"id": [99]}), mode="append")
    restore_through_delta_rs(wanted(table, version=4))
    assert [c.operation for c in read_commits(table, 3)] == ["WRITE", "WRITE", "WRITE"]
    assert (batches(table)[:4], transaction_version(table, APP)) == ([0, 1, 2, 3], CLOSED)


def test_a_request_goes_to_another_process_and_comes_back_as_it_was(table: str) -> None:
    assert TableRestore.from_text(wanted(table).to_text()) == wanted(table)


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
        restore_through_delta_rs(wanted(table, version=99, known=100))
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


# Longest wait for the other side, which takes milliseconds.
TURN_SECONDS = 30


class Turns:
    """Lets two sides take their steps in a given order. After that, each continues by itself.

    Args:
        order: One letter for each step, of the side that takes it.
    """

    def __init__(self, order: str) -> None:
        self._order = order
        self._taken = 0
        self._changed = Condition()

    @property
    def _next(self) -> str:
        return self._order[self._taken : self._taken + 1]

    def own(self, side: str, step: Callable[..., T]) -> Callable[..., T]:
        """Return the same step, which waits for its turn."""

        def in_turn(*arguments: object) -> T:
            with self._changed:
                assert self._changed.wait_for(lambda: self._next in (side, ""), TURN_SECONDS)
            try:
                return step(*arguments)
            finally:
                with self._changed:
                    self._taken += 1
                    self._changed.notify_all()

        return in_turn


@pytest.mark.parametrize(
    ("order", "is_fenced"),
    [("ddrr", False), ("drdr", False), ("rddr", False), ("drrd", True), ("rdrd", True), ("rrdd", True)],
)
def test_a_fenced_driver_that_commits_meanwhile_never_survives(
    table: str, monkeypatch: pytest.MonkeyPatch, order: str, is_fenced: bool
) -> None:
    """The driver and the restore each read the log and then commit: in every order of these steps."""
    turns = Turns(order)
    monkeypatch.setattr(TableLog, "look", turns.own("d", TableLog.look))
    monkeypatch.setattr(TableLog, "_append", turns.own("d", TableLog._append))
    monkeypatch.setattr(table_restore, "open_existing", turns.own("r", table_restore.open_existing))
    monkeypatch.setattr(table_restore, "_commit", turns.own("r", table_restore._commit))
    with ThreadPoolExecutor() as threads:
        driver = threads.submit(commit, table, 4)
        threads.submit(restore_through_delta_rs, wanted(table)).result()
    if is_fenced:
        fenced = driver.exception()
        assert isinstance(fenced, FencedError)
        assert fenced.error_id == "TIDE-RUN-003"
    else:
        assert driver.result()
    assert batches(table) == [0, 1]
