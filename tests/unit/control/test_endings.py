"""The end of a driver, from its receipt or from a missing receipt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.control.decide.endings import Ending, ending_of
from tidemill.control.decide.restart_policy import class_of
from tidemill.control.runtime import StartedDriver
from tidemill.names import Layout
from tidemill.storage.store import Store

CLAIMED = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# A stream's pod: the kubelet has started its container again, ten minutes after the claim.
AGAIN = StartedDriver(
    pipeline="orders",
    mode="stream",
    run_id="run-1",
    digest="d1",
    claimed_at=CLAIMED,
    started_at=CLAIMED + 10 * MINUTE,
    log="",
    process="pod tidemill-orders-0",
    alive=False,
)


def ended(folder: Path, start: StartedDriver, exit_code: int, stopped_at: datetime) -> Ending:
    """Return the ending of a start if this is the newest receipt of its run."""
    store, layout = Store(str(folder)), Layout(str(folder))
    result = "clean" if exit_code == 0 else "failed"
    receipt = Receipt(
        pipeline="orders",
        run_id="run-1",
        mode="stream",
        result=result,
        exit_code=exit_code,
        stopped_at=stopped_at,
        epoch=7,
    )
    write_receipt(store, layout, receipt)
    return ending_of(store, layout, start)


def test_a_container_that_was_started_again_in_a_fenced_pod_ended_as_the_one_before(tmp_path: Path) -> None:
    ending = ended(tmp_path, AGAIN, 75, CLAIMED + 9 * MINUTE)
    assert (class_of(ending), ending.epoch, ending.ended_at) == ("fenced", 7, CLAIMED + 9 * MINUTE)


@pytest.mark.parametrize("exit_code", [0, 69, 70])
def test_a_container_that_was_started_again_and_killed_is_not_judged_by_the_one_before(
    tmp_path: Path, exit_code: int
) -> None:
    assert ended(tmp_path, AGAIN, exit_code, CLAIMED + 9 * MINUTE).result == "killed"


def test_a_start_is_not_judged_by_a_fenced_one_before_its_claim(tmp_path: Path) -> None:
    anew = replace(AGAIN, claimed_at=CLAIMED + 10 * MINUTE)
    assert ended(tmp_path, anew, 75, CLAIMED + 9 * MINUTE).result == "killed"


def test_a_start_by_a_clock_behind_the_claims_finds_its_receipt(tmp_path: Path) -> None:
    behind = replace(AGAIN, started_at=CLAIMED - MINUTE)
    assert ended(tmp_path, behind, 66, CLAIMED - MINUTE / 2).exit_code == 66


@pytest.mark.parametrize(
    ("exit_code", "result", "kind", "cause"),
    [
        (69, "failed", "unavailable", "exit 69, TIDE-STOR-003"),
        (64, "failed", "refused", "exit 64"),
        (1, "failed", "crash", "Error, exit 1"),
        (137, "killed", "crash", "killed without a receipt: OOMKilled, exit 137"),
        (None, "killed", "crash", "killed without a receipt"),
    ],
)
def test_without_a_receipt_what_its_place_knows_decides(
    tmp_path: Path, exit_code: int | None, result: str, kind: str, cause: str
) -> None:
    words = cause.removeprefix("killed without a receipt").removeprefix(": ")
    start = replace(AGAIN, exit_code=exit_code, termination=words)
    ending = ending_of(Store(str(tmp_path)), Layout(str(tmp_path)), start)
    assert (ending.result, class_of(ending), ending.cause) == (result, kind, cause)


def test_a_receipt_says_more_than_a_place(tmp_path: Path) -> None:
    start = replace(AGAIN, exit_code=70, termination="Error, exit 70")
    assert ended(tmp_path, start, 66, CLAIMED + 11 * MINUTE).exit_code == 66


def test_a_driver_that_was_never_made_is_no_crash(tmp_path: Path) -> None:
    start = replace(AGAIN, made=False, termination="OSError: no memory")
    ending = ending_of(Store(str(tmp_path)), Layout(str(tmp_path)), start)
    assert (class_of(ending), ending.cause) == ("not_made", "it could not be made, OSError: no memory")
