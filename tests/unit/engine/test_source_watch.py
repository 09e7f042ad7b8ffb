"""A source that disappears under a running query is reported within seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.checkpoint.status import Status
from tidemill.engine.reporter import Reporter
from tidemill.engine.source_watch import SILENCE_SECONDS, SourceWatch
from tidemill.storage.store import Store

# A missing source: a table that was never created.
MISSING = {"source": {"delta": {"table": "bronze/missing"}}}


class HandClock:
    """A clock that a test moves by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="running", run_id="r", started_at=now, updated_at=now
    )
    return Reporter(Store(str(tmp_path)), f"{tmp_path}/status.json", status)


def error_of(reporter: Reporter) -> str | None:
    return reporter.status.error and reporter.status.error["id"]


def test_a_silent_query_whose_source_is_away_is_waiting(tmp_path: Path, reporter: Reporter) -> None:
    clock = HandClock(reporter.heard_at)
    watch = SourceWatch(declared(tmp_path, **MISSING), reporter, clock)

    clock.now += SILENCE_SECONDS - 0.1
    watch.look()
    assert (reporter.status.state, error_of(reporter)) == ("running", None)

    clock.now += 0.2
    watch.look()
    assert (reporter.status.state, error_of(reporter)) == ("waiting", "TIDE-SRC-005")


def test_a_query_that_speaks_is_left_alone(tmp_path: Path, reporter: Reporter) -> None:
    clock = HandClock(reporter.heard_at)
    watch = SourceWatch(declared(tmp_path, **MISSING), reporter, clock)
    clock.now += 10 * SILENCE_SECONDS
    reporter.heard_at = clock.now
    watch.look()
    assert error_of(reporter) is None
