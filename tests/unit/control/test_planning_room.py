"""Plannings that cannot be begun keep no place from others."""

from __future__ import annotations

import threading

import pytest

from tidemill.control.decide.planning_room import PlanningRoom


def nothing() -> None:
    """Begun."""


def fail() -> None:
    raise OSError("cut short")


def test_one_that_cannot_be_begun_gives_its_place_to_another() -> None:
    room = PlanningRoom(1)
    with pytest.raises(OSError, match="cut short"):
        room.begin(fail)
    assert [room.begin(nothing), room.begin(nothing)] == [True, False]


def test_one_that_asks_while_another_fails_waits_for_its_place() -> None:
    room, fails = PlanningRoom(1), threading.Event()
    at_it = threading.Event()

    def fail_later() -> None:
        at_it.set()
        fails.wait(5)
        raise OSError("cut short")

    def first() -> None:
        with pytest.raises(OSError, match="cut short"):
            room.begin(fail_later)

    thread = threading.Thread(target=first)
    thread.start()
    assert at_it.wait(5)
    threading.Timer(0.05, fails.set).start()
    assert room.begin(nothing)
    thread.join()
