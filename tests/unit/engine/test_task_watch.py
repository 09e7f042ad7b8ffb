"""Seeing that a long batch is worked on."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from tests.support.declared import declared
from tests.support.eventually import eventually
from tidemill.checkpoint.status import Status
from tidemill.engine.reporter import Reporter
from tidemill.engine.task_watch import LOOK_SECONDS, TaskWatch, Work, looking
from tidemill.storage.store import Store

IDLE = Work((), 0, 1)
ALONE = Work((4,), 2, None)
LONELY = Work((4,), 0, 0)


class Watched:
    """A watch over work that a test defines, with its clock."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        status = Status(
            pipeline="orders", mode="stream", state="running", run_id="r", started_at=now, updated_at=now
        )
        self.reporter = Reporter(Store(str(folder)), f"{folder}/status.json", status)
        self.seconds = 0.0
        self.work = IDLE
        self.looks = 0
        self.watch = TaskWatch(declared(folder), self.reporter, self._see, lambda: self.seconds)

    def _see(self) -> Work:
        self.looks += 1
        return self.work

    def look(self, work: Work, after: float = LOOK_SECONDS) -> None:
        self.work = work
        self.seconds += after
        self.watch.look()

    def was_silent_for(self, minutes: int) -> None:
        self.reporter.heard_at -= minutes * 60
        self.reporter._lived_at -= minutes * 60

    @property
    def error_id(self) -> str | None:
        return (self.reporter.status.error or {}).get("id")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_an_ended_task_is_a_sign_of_life(watched: Watched) -> None:
    watched.look(ALONE)
    watched.was_silent_for(minutes=10)
    watched.look(ALONE._replace(ended_tasks=3))
    assert watched.reporter.silence() < timedelta(minutes=1)


def test_a_batch_in_which_no_task_ends_is_silent(watched: Watched) -> None:
    watched.look(ALONE)
    watched.was_silent_for(minutes=10)
    watched.look(ALONE)
    assert watched.reporter.silence() > timedelta(minutes=9)


def test_executors_that_come_and_go_are_no_progress_while_nothing_is_to_be_done(watched: Watched) -> None:
    watched.look(IDLE)
    watched.was_silent_for(minutes=10)
    watched.look(IDLE._replace(executors=2))
    assert watched.reporter.silence() > timedelta(minutes=9)


def test_tasks_without_an_executor_are_told_until_one_comes(watched: Watched) -> None:
    watched.look(LONELY)
    assert watched.error_id is None  # it may just be starting
    watched.look(LONELY)
    assert (watched.reporter.status.state, watched.error_id) == ("waiting", "TIDE-K8S-022")
    watched.look(LONELY._replace(executors=1))
    assert (watched.reporter.status.state, watched.error_id) == ("running", None)


def test_a_driver_that_works_alone_misses_no_executor(watched: Watched) -> None:
    watched.look(ALONE)
    watched.look(ALONE)
    assert watched.error_id is None


def test_the_jvm_is_asked_every_few_seconds_only(watched: Watched) -> None:
    for _ in range(40):
        watched.look(ALONE, after=LOOK_SECONDS / 40)
    assert watched.looks == 1


def test_a_jvm_that_does_not_answer_fails_no_stream(tmp_path: Path) -> None:
    def no_answer() -> Work:
        raise Py4JNetworkError("Answer from Java side is empty")

    watched = Watched(tmp_path)
    watched.watch = TaskWatch(declared(tmp_path), watched.reporter, no_answer, lambda: watched.seconds)
    watched.look(IDLE)
    assert watched.error_id is None


def test_one_long_call_is_watched_until_it_ends(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.engine.task_watch.WAKE_SECONDS", 0.01)
    monkeypatch.setattr("tidemill.engine.task_watch.LOOK_SECONDS", 0.0)
    watched.work = LONELY
    with looking(watched.watch):
        eventually(lambda: watched.error_id == "TIDE-K8S-022", "the missing executor is told")
        watched.work = LONELY._replace(executors=1)
        eventually(lambda: watched.error_id is None, "its coming is told")
    assert "task-watch" not in {thread.name for thread in threading.enumerate()}


def test_a_long_call_that_fails_is_not_hidden_by_its_watch(watched: Watched) -> None:
    with pytest.raises(ZeroDivisionError), looking(watched.watch):
        raise ZeroDivisionError
