"""Reading a Spark checkpoint's batch logs, whole and torn."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import checkpoint_files
from tests.support.checkpoints import range_of, write_checkpoint, write_planned
from tidemill.checkpoint.reading.batches import CheckpointBatches, PlannedBatch
from tidemill.checkpoint.reading.log_files import CommitsFile
from tidemill.errors import GateRefusedError
from tidemill.storage.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "g0001"


@pytest.fixture
def batches(folder: Path) -> CheckpointBatches:
    return CheckpointBatches(Store(str(folder.parent)), str(folder))


def test_a_checkpoint_that_was_never_started_says_nothing(batches: CheckpointBatches) -> None:
    assert (batches.query_id(), batches.last_planned(), batches.last_committed()) == (None, None, None)
    assert batches.planned(0) is None
    assert batches.initial_offset() is None


def test_the_newest_batch_is_found_by_number_not_by_name(batches: CheckpointBatches, folder: Path) -> None:
    write_checkpoint(folder, planned=range(8, 12), committed=range(8, 11))
    assert (batches.last_planned(), batches.last_committed()) == (11, 10)


def test_all_batches_are_listed_rising(batches: CheckpointBatches, folder: Path) -> None:
    assert (batches.offset_ids(), batches.commit_ids()) == ([], [])
    write_checkpoint(folder, planned=range(8, 12), committed=range(8, 11))
    assert (batches.offset_ids(), batches.commit_ids()) == ([8, 9, 10, 11], [8, 9, 10])


def test_a_committed_batch_has_the_next_watermark(batches: CheckpointBatches, folder: Path) -> None:
    write_checkpoint(folder, planned=[0], committed=[0])
    assert batches.commits(0) == CommitsFile(0, 1)
    assert batches.commits(1) is None


def test_a_torn_commit_is_refused_by_name(batches: CheckpointBatches, folder: Path) -> None:
    write_checkpoint(folder, planned=[0], committed=[0])
    (folder / "commits/0").write_bytes(b'v1\n{"nextBatchWaterm')
    with pytest.raises(GateRefusedError) as refused:
        batches.commits(0)
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-CKPT-007", {"file": f"{folder}/commits/0"})


def test_files_that_are_no_batches_are_ignored(batches: CheckpointBatches, folder: Path) -> None:
    write_checkpoint(folder, planned=[0], committed=[0])
    for name in (".1.crc", ".2.abc.tmp", "3.compact", "_note"):
        (folder / "offsets" / name).write_text("")
    assert batches.last_planned() == 0


def test_a_planned_batch_has_its_ends_and_watermark(batches: CheckpointBatches, folder: Path) -> None:
    write_planned(folder, 4, {"orders": {"0": 5}}, None, 17, watermark_ms=1_700_000_000_123)
    watermark = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert batches.planned(4) == PlannedBatch(4, watermark, {"0": {"orders": {"0": 5}}, "1": None, "2": 17})


def test_before_the_first_event_there_is_no_watermark(batches: CheckpointBatches, folder: Path) -> None:
    write_planned(folder, 0, {"orders": {"0": 5}})
    planned = batches.planned(0)
    assert planned is not None
    assert planned.watermark is None


def test_the_first_batch_starts_where_the_source_began(batches: CheckpointBatches, folder: Path) -> None:
    write_checkpoint(folder, planned=[0, 1], committed=[0])
    assert range_of(batches, 0) == ({"orders": {"0": 0}}, {"orders": {"0": 10}})
    assert range_of(batches, 1) == ({"orders": {"0": 10}}, {"orders": {"0": 20}})


def test_each_source_of_a_batch_has_its_own_range(batches: CheckpointBatches, folder: Path) -> None:
    write_planned(folder, 0, {"orders": {"0": 5}}, None)
    write_planned(folder, 1, {"orders": {"0": 8}}, {"orders": {"0": 7}})
    for place, first in enumerate((0, 3)):
        (folder / f"sources/{place}").mkdir(parents=True)
        (folder / f"sources/{place}/0").write_bytes(
            checkpoint_files.initial_offsets({"orders": {"0": first}})
        )
    planned = batches.planned(1)
    assert planned is not None
    assert batches.ranges_of(planned) == {
        "0": ({"orders": {"0": 5}}, {"orders": {"0": 8}}),
        "1": ({"orders": {"0": 3}}, {"orders": {"0": 7}}),
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"v1",
        b'v1\n{"batchWaterm',
        b'v1\n{"batchWatermarkMs":0}',
        b'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":1',
        b'v1\n{"batchTimestampMs":0}\n{}',
        b"v1\n[]\n{}",
        b"v1\n\xff\xfe\n{}",
        b"\0\0\0\0\0\0",
    ],
)
def test_a_torn_batch_file_is_refused_by_name(
    batches: CheckpointBatches, folder: Path, content: bytes
) -> None:
    write_planned(folder, 3, {}).write_bytes(content)
    with pytest.raises(GateRefusedError) as refused:
        batches.planned(3)
    assert refused.value.error_id == "TIDE-CKPT-007"
    assert refused.value.facts == {"file": f"{folder}/offsets/3"}
    assert refused.value.runbook == "checkpoint-damaged"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 1}'])
def test_a_torn_query_id_is_refused_by_name(batches: CheckpointBatches, folder: Path, content: str) -> None:
    write_checkpoint(folder, planned=[], committed=[])
    (folder / "metadata").write_text(content)
    with pytest.raises(GateRefusedError) as refused:
        batches.query_id()
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-CKPT-007", {"file": f"{folder}/metadata"})


@pytest.mark.parametrize("content", [b"", b"\0", b"\0v1", b"\0v1\n{"])
def test_a_torn_start_is_an_unknown_start(batches: CheckpointBatches, folder: Path, content: bytes) -> None:
    """The start is only reported in the ledger. Spark reads it at the first batch and refuses it then."""
    write_checkpoint(folder, planned=[0], committed=[])
    (folder / "sources/0/0").write_bytes(content)
    assert batches.initial_offset() is None
