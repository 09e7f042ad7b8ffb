"""Counting the wave holds up no visit: only when one asks, side by side, and within its time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.small_project import ENVIRONMENT, SmallProject
from tidemill.control.decide import turn_of_streams
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.side_by_side import Limits
from tidemill.control.decide.turn_of_streams import WaveOnDemand, wave_now
from tidemill.control.decide.visit import utc_now
from tidemill.control.decide.waves import Wave
from tidemill.control.runtime import MainSlot


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Storage that does not answer."""
    answers = threading.Event()
    monkeypatch.setattr(turn_of_streams, "_stage", lambda *_: answers.wait(30))
    yield
    answers.set()


@pytest.mark.usefixtures("silence")
def test_streams_whose_records_are_silent_take_room_and_hold_up_nobody(project: SmallProject) -> None:
    project.environ(ENVIRONMENT + "on_change: restart\nupgrade: {wave: 3}\n")
    slots = {f"s{number}": MainSlot() for number in range(2)}
    wave = wave_now(project.plane(), slots, utc_now(), Limits(16, 0.2, 0.3))
    assert (wave.room, wave.under_way) == (1, {"s0", "s1"})


def test_the_wave_is_not_counted_where_nothing_is_to_be_replaced(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr("tidemill.control.decide.all_streams.wave_now", lambda *asked: counted.append(asked))
    project.environ(ENVIRONMENT + "on_change: restart\n")
    project.declare("orders")
    assert [outcome.decision.action for outcome in reconcile_streams(project.plane())] == ["start"]
    assert counted == []


def test_the_wave_is_counted_once() -> None:
    wave = WaveOnDemand(lambda: Wave(1, "one at once"))
    assert [wave.now().takes("a"), wave.now().takes("b")] == [True, False]
