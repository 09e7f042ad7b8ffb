"""Waiting for a source that does not answer: longer each time, not for ever, and never against a drain."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.checkpoint.status import Status
from tidemill.engine.availability import (
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    PATIENCE_SECONDS,
    Backoff,
)
from tidemill.engine.drain import Drain
from tidemill.engine.reporter import Reporter
from tidemill.errors import UnavailableError
from tidemill.storage.store import Store

AWAY = UnavailableError("TIDE-SRC-001", "No Kafka broker answers.")


class TimelessDrain(Drain):
    """Takes note of the waits instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.requested


@pytest.fixture
def drain() -> TimelessDrain:
    return TimelessDrain()


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="starting", run_id="r", started_at=now, updated_at=now
    )
    return Reporter(Store(str(tmp_path)), f"{tmp_path}/status.json", status)


@pytest.fixture
def backoff(drain: TimelessDrain, reporter: Reporter) -> Backoff:
    return Backoff(drain, reporter)


def wait_until_out_of_patience(backoff: Backoff) -> None:
    with pytest.raises(UnavailableError) as ended:
        all(backoff.wait(AWAY) for _ in range(10_000))
    assert ended.value is AWAY


def test_waits_grow_up_to_the_longest_until_patience_ends(backoff: Backoff, drain: TimelessDrain) -> None:
    wait_until_out_of_patience(backoff)
    for number, seconds in enumerate(drain.waits):
        planned = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**number)
        assert 0.8 * planned <= seconds <= 1.2 * planned
    assert PATIENCE_SECONDS <= sum(drain.waits) < PATIENCE_SECONDS + 1.2 * LONGEST_WAIT_SECONDS


def test_a_success_starts_anew(backoff: Backoff, drain: TimelessDrain) -> None:
    wait_until_out_of_patience(backoff)
    drain.waits.clear()
    backoff.succeeded()
    assert backoff.wait(AWAY)
    assert drain.waits[0] <= 1.2 * FIRST_WAIT_SECONDS


def test_a_drain_ends_the_waiting(backoff: Backoff, drain: TimelessDrain) -> None:
    drain.request()
    assert not backoff.wait(AWAY)


def test_the_status_says_what_is_waited_for(backoff: Backoff, reporter: Reporter) -> None:
    backoff.wait(AWAY)
    assert reporter.status.state == "waiting"
    assert reporter.status.error is not None
    assert reporter.status.error["id"] == "TIDE-SRC-001"
