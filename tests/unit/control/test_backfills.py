"""Reports of backfills that were carried out in part."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import ChunkDone, Progress
from tidemill.control.backfills import Backfill, State

BEGUN = datetime(2026, 11, 23, tzinfo=UTC)
PLAN = BackfillPlan(pipeline="orders", definition="d", bounds=Bounds(), by="record")
DONE = ChunkDone(rows={}, versions={}, records=None, seconds=60, run_id="r", at=BEGUN)
HALF = Progress(begun_at=BEGUN, chunks=4, done={0: DONE, 1: DONE})


@pytest.mark.parametrize("state", get_args(State))
def test_time_is_left_only_while_a_driver_is_at_work(state: State) -> None:
    left = timedelta(minutes=2) if state == "at work" else None
    backfill = Backfill(PLAN, HALF, state)
    assert (backfill.left, backfill.cells()[-1]) == (left, left)
    assert backfill.as_document()["left"] == (left and left.total_seconds())


def test_no_time_is_told_before_the_first_chunk() -> None:
    assert Backfill(PLAN, None, "at work").left is None
    assert Backfill(PLAN, Progress(begun_at=BEGUN, chunks=4), "at work").left is None
