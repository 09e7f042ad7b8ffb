"""Ownership of a folder of files, and whether Spark's log of it fits the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.errors import GateRefusedError
from tidemill.sinks.files_folder import (
    Claim,
    FilesFolder,
    check_folder_is_ours,
    entries_before,
    outdated,
)

MINE = Claim(root="/lake", pipeline="orders", generation="g0001", after_batch=-1, layout="parquet")


def mine(**changes: Any) -> Claim:
    return MINE.model_copy(update=changes)


def folder(*claims: Claim, newest: int = -1, has_files: bool | None = None) -> FilesFolder:
    return FilesFolder("/lake/exports", claims, newest, newest >= 0 if has_files is None else has_files)


@pytest.mark.parametrize(
    ("found", "now"),
    [
        (folder(), mine()),
        (folder(), mine(after_batch=7)),
        (folder(MINE), mine()),
        # Killed before the batch was named in the log, or after it.
        (folder(MINE, has_files=True), mine()),
        (folder(MINE, newest=0), mine()),
        (folder(MINE, newest=7), mine(after_batch=7)),
        (folder(MINE, newest=8), mine(after_batch=7)),
        # Nothing was written in the other form.
        (folder(MINE, has_files=True), mine(layout="csv")),
        # The sink was added later.
        (folder(mine(after_batch=7)), mine(after_batch=7)),
        (folder(mine(after_batch=7), newest=8), mine(after_batch=8)),
        # A new generation that continues exactly after the old one.
        (folder(MINE, newest=7), mine(generation="g0002", after_batch=7)),
    ],
)
def test_a_folder_whose_log_stands_where_the_checkpoint_stands_is_ours(
    found: FilesFolder, now: Claim
) -> None:
    check_folder_is_ours(found, now)


@pytest.mark.parametrize(
    ("found", "now", "error_id"),
    [
        (folder(mine(pipeline="other")), mine(), "TIDE-SINK-008"),
        (folder(mine(root="/other")), mine(), "TIDE-SINK-008"),
        (folder(MINE, mine(pipeline="other")), mine(), "TIDE-SINK-008"),
        (folder(newest=3), mine(), "TIDE-SINK-008"),
        (folder(has_files=True), mine(), "TIDE-SINK-008"),
        (folder(MINE, newest=3), mine(after_batch=3, layout="csv"), "TIDE-SINK-009"),
        # Reset, rewound, and a checkpoint that was brought back by hand.
        (folder(MINE, newest=3), mine(generation="g0002"), "TIDE-SINK-010"),
        (folder(MINE, newest=0), mine(generation="g0002"), "TIDE-SINK-010"),
        (folder(MINE, newest=3), mine(generation="g0002", after_batch=2), "TIDE-SINK-010"),
        (folder(MINE, newest=3), mine(after_batch=1), "TIDE-SINK-010"),
        # The log was deleted, or a part of it.
        (folder(MINE, has_files=True), mine(after_batch=0), "TIDE-SINK-011"),
        (folder(MINE, newest=3), mine(after_batch=5), "TIDE-SINK-011"),
        (folder(MINE, newest=3), mine(generation="g0002", after_batch=5), "TIDE-SINK-011"),
    ],
)
def test_a_folder_in_which_rows_would_be_lost_or_hidden_is_refused(
    found: FilesFolder, now: Claim, error_id: str
) -> None:
    with pytest.raises(GateRefusedError) as refused:
        check_folder_is_ours(found, now)
    assert refused.value.error_id == error_id
    assert refused.value.facts["folder"] == "/lake/exports"
    assert refused.value.fix


def test_claims_of_a_folder_without_a_batch_give_way() -> None:
    before = [MINE, mine(generation="g0002")]
    assert outdated(folder(*before), mine(layout="csv")) == before
    assert outdated(folder(*before, newest=0), mine(layout="csv")) == []
    assert outdated(folder(MINE), MINE) == []


@pytest.mark.parametrize(
    ("batch_id", "entries"),
    [
        (-1, []),
        (2, ["0", "1", "2"]),
        (8, [str(number) for number in range(9)]),
        (9, ["9.compact"]),
        (12, ["9.compact", "10", "11", "12"]),
        (19, ["19.compact"]),
    ],
)
def test_a_log_that_begins_later_has_the_entries_that_spark_looks_for(
    batch_id: int, entries: list[str]
) -> None:
    assert entries_before(batch_id, 10) == entries
