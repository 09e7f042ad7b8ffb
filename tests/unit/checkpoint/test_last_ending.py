"""The end of the last driver, as the next start sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.last_ending import conclude, read_last_ending
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.status import Status, write_status
from tidemill.names import Layout
from tidemill.storage.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def receipt(result: Any, run_id: str = "run-1", **more: Any) -> Receipt:
    document = {"pipeline": "orders", "run_id": run_id, "mode": "stream", "exit_code": 0, "stopped_at": NOW}
    return Receipt.model_validate({**document, "result": result, **more})


def status(state: Any, run_id: str = "run-1") -> Status:
    return Status(
        pipeline="orders",
        mode="stream",
        state=state,
        run_id=run_id,
        started_at=NOW,
        updated_at=NOW,
        batch_id=7,
    )


@pytest.mark.parametrize(
    ("left", "said", "expected"),
    [
        (None, None, None),
        (receipt("clean"), status("stopped"), "clean"),
        (receipt("forced"), status("stopped"), "forced"),
        (receipt("failed"), status("failed"), "failed"),
        # The driver ended between its receipt and its last status.
        (receipt("clean"), status("running"), "clean"),
        (None, status("running"), "killed"),
        (receipt("clean", "run-0"), status("draining"), "killed"),
        (receipt("clean", "run-0"), status("starting"), "killed"),
    ],
)
def test_how_the_last_driver_ended(left: Receipt | None, said: Status | None, expected: str | None) -> None:
    found = conclude(left, said)
    assert (found.result if found else None) == expected


def test_what_the_next_start_repeats_is_told() -> None:
    found = conclude(receipt("forced", batch_id=6, unfinished_batch=7), status("stopped"))
    assert found is not None
    assert (found.batch_id, found.unfinished_batch, found.is_clean) == (6, 7, False)
    assert found.document() == {
        "result": "forced",
        "run_id": "run-1",
        "at": NOW.isoformat(),
        "batch_id": 6,
        "unfinished_batch": 7,
    }


def test_a_backfill_beside_the_stream_is_not_its_last_driver(tmp_path: Path) -> None:
    store, layout = Store(str(tmp_path)), Layout(str(tmp_path))
    write_status(store, layout.status("orders"), status("stopped"))
    write_receipt(store, layout, receipt("forced"))
    later = NOW + timedelta(hours=1)
    write_receipt(store, layout, receipt("clean", "backfill-1", mode="backfill", stopped_at=later))
    found = read_last_ending(store, layout, "orders")
    assert found is not None
    assert (found.result, found.run_id) == ("forced", "run-1")
