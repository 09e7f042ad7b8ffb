"""The receipt has the checkpoint's position and the batch that the next start repeats."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.checkpoints import write_checkpoint
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.control.driver_command import Mode
from tidemill.engine.receipt import make_receipt
from tidemill.engine.streaming import Ending
from tidemill.errors import DataError, FencedError, TidemillError
from tidemill.names import Layout
from tidemill.storage.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(Layout(str(tmp_path)).checkpoint("orders", "g0001"))


def left(
    tmp_path: Path,
    failure: TidemillError | None = None,
    generation: str | None = "g0001",
    mode: Mode = "stream",
    ending: Ending = "drained",
) -> Receipt:
    status = Status(
        pipeline="orders",
        mode=mode,
        state="running",
        run_id="r",
        generation=generation,
        epoch=3,
        started_at=NOW,
        updated_at=NOW,
        batch_id=9,
    )
    return make_receipt(Store(str(tmp_path)), Layout(str(tmp_path)), status, ending, failure)


def test_a_clean_receipt_has_the_newest_committed_batch_and_its_offsets(
    tmp_path: Path, checkpoint: Path
) -> None:
    write_checkpoint(checkpoint, range(4), range(4))
    receipt = left(tmp_path)
    assert (receipt.result, receipt.batch_id, receipt.unfinished_batch) == ("clean", 3, None)
    assert receipt.offsets == {"source": {"orders": {"0": 40}}}
    assert (receipt.generation, receipt.epoch) == ("g0001", 3)


def test_a_batch_that_was_cut_off_is_named(tmp_path: Path, checkpoint: Path) -> None:
    write_checkpoint(checkpoint, range(5), range(4))
    receipt = left(tmp_path, DataError("TIDE-SINK-001", "Other columns."))
    assert (receipt.result, receipt.exit_code) == ("failed", 65)
    assert (receipt.batch_id, receipt.unfinished_batch) == (3, 4)
    assert receipt.error is not None
    assert receipt.error["id"] == "TIDE-SINK-001"


def test_a_fenced_driver_does_not_speak_for_the_checkpoint(tmp_path: Path, checkpoint: Path) -> None:
    write_checkpoint(checkpoint, range(5), range(5))
    receipt = left(tmp_path, FencedError("TIDE-RUN-001", "A newer driver has started."))
    assert (receipt.batch_id, receipt.offsets, receipt.exit_code) == (9, None, 75)


def test_a_torn_checkpoint_does_not_hide_how_the_driver_ended(tmp_path: Path, checkpoint: Path) -> None:
    write_checkpoint(checkpoint, range(4), range(4))
    (checkpoint / "offsets/3").write_text("")
    receipt = left(tmp_path)
    assert (receipt.result, receipt.batch_id, receipt.offsets) == ("clean", 9, None)


def test_a_backfill_has_no_checkpoint(tmp_path: Path) -> None:
    assert left(tmp_path, generation=None).offsets is None


@pytest.mark.parametrize(
    ("mode", "ending", "stopped_early"),
    [
        ("stream", "drained", False),
        ("incremental", "finished", False),
        ("incremental", "drained", True),
        ("backfill", "finished", False),
        ("backfill", "drained", True),
    ],
)
def test_a_bounded_run_that_was_drained_has_not_finished(
    tmp_path: Path, mode: Mode, ending: Ending, stopped_early: bool
) -> None:
    receipt = left(tmp_path, mode=mode, ending=ending)
    assert (receipt.result, receipt.exit_code, receipt.stopped_early) == ("clean", 0, stopped_early)


def test_a_bounded_run_that_failed_was_not_stopped(tmp_path: Path) -> None:
    assert not left(tmp_path, DataError("TIDE-SINK-001", "Other columns."), mode="incremental").stopped_early
