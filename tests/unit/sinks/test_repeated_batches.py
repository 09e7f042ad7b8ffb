"""A batch that the table holds already: known by its ledger entry, not by the number of its transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.commits import TABLE, commit_of, handed_over, planned_otherwise
from tidemill.errors import FencedError, GateRefusedError, TidemillError
from tidemill.ledger.table_restore import restore_through_delta_rs
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import write_part

COLUMNS = pa.schema([("id", pa.int64())])


def of_another_query(commit: BatchCommit) -> BatchCommit:
    return replace(commit, entry=commit.entry.model_copy(update={"query_id": "77aa"}))


def write(table: Path, commit: BatchCommit) -> Written:
    """Write a batch as a driver that has just started."""
    log = TableLog(str(table))
    log.create(COLUMNS)
    rows = pa.RecordBatch.from_arrays([pa.array([commit.batch_id])], schema=COLUMNS)
    part = write_part(log.path, f"part-{commit.batch_id}.parquet", COLUMNS, [rows])
    assert part is not None
    return log.commit([part], commit, COLUMNS)


def refused(table: Path, commit: BatchCommit) -> TidemillError:
    before = DeltaTable(str(table)).version()
    with pytest.raises(TidemillError) as looked:
        TableLog(str(table)).look(commit)
    with pytest.raises(TidemillError) as committed:
        write(table, commit)
    assert committed.value.error_id == looked.value.error_id
    assert DeltaTable(str(table)).version() == before
    return looked.value


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Version N + 1 is batch N of three."""
    for batch_id in range(3):
        write(tmp_path / "orders", commit_of(batch_id))
    return tmp_path / "orders"


START, END = {"orders": {"0": 20}}, {"orders": {"0": 30}}


@pytest.mark.parametrize(
    ("other", "fact", "theirs", "ours"),
    [
        (
            planned_otherwise,
            "offsets",
            {"source": {"start": START, "end": END}},
            {"source": {"start": START, "end": {"orders": {"0": 99}}}},
        ),
        (of_another_query, "query_id", "2f1c", "77aa"),
    ],
)
def test_a_batch_that_another_driver_made_of_other_records_fences_this_one_off(
    table: Path, other: Callable[[BatchCommit], BatchCommit], fact: str, theirs: Any, ours: Any
) -> None:
    fenced = refused(table, other(commit_of(2, driver="driver-2")))
    assert (type(fenced), fenced.error_id) == (FencedError, "TIDE-RUN-004")
    assert (fenced.facts[f"table_{fact}"], fenced.facts[f"driver_{fact}"]) == (theirs, ours)
    assert (fenced.facts["table_run"], fenced.facts["batch_id"]) == ("driver-1", 2)


def test_the_same_batch_of_another_run_is_there(table: Path) -> None:
    found = TableLog(str(table)).look(commit_of(2, driver="driver-2"))
    assert found is not None
    assert (found.version, found.entry and found.entry.run_id) == (3, "driver-1")
    assert write(table, commit_of(2, driver="driver-2")) == Written(committed=False)


def test_a_driver_that_is_behind_the_table_is_fenced_off(table: Path) -> None:
    fenced = refused(table, commit_of(1, driver="driver-2"))
    assert (type(fenced), fenced.error_id) == (FencedError, "TIDE-RUN-004")
    assert (fenced.facts["batch_id"], fenced.facts["table_batch"]) == (1, 2)


@pytest.mark.parametrize("batch_id", [1, 2, 3])
def test_a_driver_whose_generation_a_verb_has_closed_is_fenced_off(table: Path, batch_id: int) -> None:
    restore_through_delta_rs(handed_over(table, 2, 3))
    fenced = refused(table, commit_of(batch_id))
    assert (type(fenced), fenced.error_id) == (FencedError, "TIDE-RUN-003")
    assert (fenced.facts["generation"], fenced.facts["table"]) == ("g0001", str(table))


def test_a_batch_that_was_restored_away_by_hand_does_not_pass_for_written(table: Path) -> None:
    DeltaTable(str(table)).restore(2)
    taken = refused(table, commit_of(2, driver="driver-2"))
    assert (type(taken), taken.error_id) == (GateRefusedError, "TIDE-SINK-006")
    assert (taken.facts["batch_id"], taken.runbook) == (2, "checkpoint-ahead-of-table")


def test_another_generation_and_another_pipeline_are_not_taken_for_the_batch(table: Path) -> None:
    assert write(table, commit_of(2, pipeline="payments")).committed
    forked = commit_of(2).entry.model_copy(update={"generation": "g0002"})
    assert write(table, BatchCommit.of(forked, TABLE)).committed
