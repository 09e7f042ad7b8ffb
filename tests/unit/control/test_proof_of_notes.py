"""A start without batches is proven by what Spark has noted; the proof says that it is no ledger entry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.declared import declared
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.ask.proof import prove_progress
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver
from tidemill.storage.store import Store

STARTED = datetime(2026, 3, 1, 12, tzinfo=UTC)
START = StartedDriver("orders", "stream", "run-1", "d", STARTED, STARTED, "log", "pid 7", True)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ("pending", "no batch is committed yet")),
        ({"batch_id": 4, "batch_committed_at": STARTED - timedelta(1)}, ("pending", "no batch")),
        (
            {"batch_id": 7, "batch_committed_at": STARTED + timedelta(seconds=9)},
            ("done", "note 7 is in the checkpoint; trigger continuous writes no ledger"),
        ),
    ],
)
def test_a_start_without_batches_is_proven_by_a_note_of_its_own(
    tmp_path: Path, said: dict[str, Any], expected: tuple[str, str]
) -> None:
    layout = declared(tmp_path).layout
    store = Store(layout.root)
    status = Status(
        pipeline="orders",
        mode="stream",
        state="running",
        run_id="run-1",
        started_at=STARTED,
        updated_at=STARTED,
        trigger="continuous",
        **said,
    )
    write_status(store, layout.status("orders"), status)
    runtime = SimpleNamespace(last_start=lambda _: START)
    plane = cast("ControlPlane", SimpleNamespace(runtime=runtime, store=store, layout=layout))
    proof = prove_progress(plane, "orders", None)
    assert proof.state == expected[0]
    assert expected[1] in proof.message
