"""The doctor's findings from control files: unfinished requests, holds, and the end of the last driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.doctor.rules import SILENCE
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.status import Status

NOW = datetime.now(UTC)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(ConfProject(tmp_path))


def test_an_unfinished_request_is_wrong_and_a_hold_is_told(clinic: Clinic) -> None:
    clinic.healthy()
    layout = clinic.project.load().layout
    clinic.begin("rewind-1")
    for name in ("rewind-1", "freeze"):
        take_hold(clinic.store, layout, "orders", Hold(id=name, by="ann", why="month end"))
    found = [f for f in clinic.examine().findings if f.finding_id == "TIDE-CKPT-058"]
    assert [(f.severity, f.facts.get("request") or f.facts["hold"]) for f in found] == [
        ("error", "rewind-1"),
        ("warning", "freeze"),
    ]


def status(state: Any, age: timedelta, lag: int | None = None) -> dict[str, Any]:
    then = datetime.now(UTC) - age
    seen = Status(
        pipeline="orders",
        mode="stream",
        state=state,
        run_id="run-1",
        started_at=then,
        updated_at=then,
        lag=lag,
    )
    return seen.model_dump(mode="json")


def receipt(result: Any, run_id: str = "run-1") -> Receipt:
    return Receipt(
        pipeline="orders",
        run_id=run_id,
        mode="stream",
        result=result,
        exit_code=0 if result != "failed" else 69,
        stopped_at=NOW,
        error={"id": "TIDE-SRC-001", "runbook": "source-unavailable"} if result == "failed" else None,
    )


@pytest.mark.parametrize(
    ("result", "runbook"), [("clean", None), ("forced", "drain-overdue"), ("failed", "source-unavailable")]
)
def test_how_the_last_driver_ended(clinic: Clinic, result: str, runbook: str | None) -> None:
    clinic.healthy()
    write_receipt(clinic.store, clinic.project.load().layout, receipt(result))
    found = [f.runbook for f in clinic.examine().findings if f.finding_id == "TIDE-CKPT-059"]
    assert found == ([runbook] if runbook else [])


def test_a_driver_that_fell_silent_without_a_receipt_is_noted(clinic: Clinic) -> None:
    clinic.healthy()
    write_receipt(clinic.store, clinic.project.load().layout, receipt("clean", run_id="an earlier one"))
    clinic.state_file("status.json", status("running", SILENCE / 2))
    assert "TIDE-CKPT-059" not in clinic.ids()
    clinic.state_file("status.json", status("running", SILENCE * 2))
    assert clinic.finding("TIDE-CKPT-059").severity == "note"
