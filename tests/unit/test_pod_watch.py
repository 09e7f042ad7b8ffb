"""The watch of the e2e tests sees what it is there for: two driver containers at work at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.pod_watch import PodWatch, at_once


def moment(second: int) -> str:
    return f"2026-11-22T12:00:{second:02}Z"


def running(container: str, began: int) -> dict[str, Any]:
    return {"containerID": container, "state": {"running": {"startedAt": moment(began)}}}


def ended(container: str, began: int, finished: int) -> dict[str, Any]:
    times = {"startedAt": moment(began), "finishedAt": moment(finished), "containerID": container}
    return {"containerID": container, "state": {"terminated": times}}


def pod(uid: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "status": {"containerStatuses": [{"name": "driver", **status}]}}


@pytest.fixture
def watch() -> Iterator[PodWatch]:
    watch = PodWatch(subprocess.Popen(["sleep", "infinity"], stdout=subprocess.PIPE, text=True))
    yield watch
    watch.end()


def test_one_after_the_other_is_fine_also_within_a_second(watch: PodWatch) -> None:
    watch.take("ADDED", pod("a", running("a1", 1)))
    watch.take("MODIFIED", pod("a", ended("a1", 1, 9)))
    watch.take("DELETED", pod("a", ended("a1", 1, 9)))
    watch.take("ADDED", pod("b", running("b1", 9)))
    assert not watch.two_at_once.is_set()
    assert [life.cut_short for life in watch.lives.values()] == [False, False]


def test_two_at_once_are_seen_though_neither_is_ready(watch: PodWatch) -> None:
    watch.take("ADDED", pod("a", running("a1", 1)))
    watch.take("ADDED", pod("b", running("b1", 5)))
    assert watch.two_at_once.is_set()


def test_two_at_once_are_seen_when_the_older_one_is_gone_before_the_next_look(watch: PodWatch) -> None:
    watch.take("ADDED", pod("a", running("a1", 1)))
    watch.take("DELETED", pod("a", ended("a1", 1, 9)))
    watch.take("ADDED", pod("b", running("b1", 5)))
    ((first, second),) = at_once(watch.lives.values())
    assert (first.pod, second.pod) == ("a", "b")


def test_a_restarted_container_has_two_lives_in_one_pod(watch: PodWatch) -> None:
    watch.take("ADDED", pod("a", running("a1", 1)))
    again = {**running("a2", 6), "lastState": ended("a1", 1, 5)["state"]}
    watch.take("MODIFIED", pod("a", again))
    assert [life.ended is None for life in watch.lives.values()] == [False, True]
    assert not watch.two_at_once.is_set()


def test_of_a_pod_that_was_taken_away_by_force_nobody_knows_the_end(watch: PodWatch) -> None:
    watch.take("ADDED", pod("a", running("a1", 1)))
    watch.take("DELETED", pod("a", running("a1", 1)))
    watch.take("ADDED", pod("b", running("b1", 2)))
    assert not watch.two_at_once.is_set()
    assert [life.cut_short for life in watch.lives.values()] == [True, False]
