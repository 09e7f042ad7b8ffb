"""Decisions of the probes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemill.checkpoint.status import Status
from tidemill.engine.liveness import LEAST_SILENCE, alive, ready

NOW = datetime(2026, 11, 22, tzinfo=UTC)
TRIGGER = timedelta(seconds=10)
AWAY = {"id": "TIDE-SRC-001"}


def status(**changes: Any) -> Status:
    begun = Status(
        pipeline="orders", mode="stream", state="running", run_id="r", started_at=NOW, updated_at=NOW
    )
    return begun.model_copy(update=changes)


@pytest.mark.parametrize("state", ["starting", "running", "waiting", "draining"])
def test_a_first_batch_of_minutes_is_alive(state: str) -> None:
    assert alive(state, timedelta(minutes=10), TRIGGER).good


@pytest.mark.parametrize("state", ["starting", "running", "draining"])
def test_a_hung_driver_is_not_alive(state: str) -> None:
    assert not alive(state, LEAST_SILENCE + timedelta(seconds=1), TRIGGER).good


def test_a_slow_trigger_allows_a_longer_silence() -> None:
    hourly = timedelta(hours=1)
    assert alive("running", timedelta(hours=9), hourly).good
    assert not alive("running", timedelta(hours=11), hourly).good


def test_a_bounded_run_takes_as_long_as_it_shows_signs_of_life() -> None:
    assert alive("running", LEAST_SILENCE, None).good
    assert not alive("running", LEAST_SILENCE + timedelta(seconds=1), None).good


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_driver_that_has_ended_may_exit_by_itself_for_a_while(state: str) -> None:
    assert alive(state, LEAST_SILENCE, TRIGGER).good
    assert not alive(state, LEAST_SILENCE + timedelta(seconds=1), TRIGGER).good


def test_a_driver_is_ready_once_it_has_committed() -> None:
    assert not ready(status(state="starting")).good
    assert not ready(status(state="running")).good
    assert ready(status(batch_id=7, batch_committed_at=NOW)).good


def test_a_driver_without_batches_is_ready_with_spark_s_first_note_and_says_what_it_promises() -> None:
    noted = ready(status(batch_id=7, batch_committed_at=NOW, trigger="continuous"))
    assert noted.good
    assert noted.reason == "without batches (continuous), at least once: note 7 is there"
    assert not ready(status(state="running", trigger="continuous")).good


def test_a_driver_with_nothing_to_read_is_ready() -> None:
    assert ready(status(state="waiting")).good


def test_a_driver_whose_source_is_away_is_ready_only_if_it_has_worked_before() -> None:
    assert not ready(status(state="waiting", error=AWAY)).good
    assert ready(status(state="waiting", error=AWAY, batch_committed_at=NOW)).good


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_a_driver_that_has_ended_is_not_ready(state: str) -> None:
    assert not ready(status(state=state, batch_committed_at=NOW)).good
