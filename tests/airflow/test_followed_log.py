"""The driver's log in the log of the task that waits for it: each line once, from beginning to end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, STREAM, SmallProject
from tidemill.control.ask.bounded_run import finish_of
from tidemill.control.ask.goal import Goal
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver
from tidemill.errors import UnavailableError


@pytest.fixture
def project(bare_project: SmallProject) -> SmallProject:
    bare_project.declare("daily", INCREMENTAL)
    bare_project.declare("orders", STREAM)
    return bare_project


def begun(project: SmallProject) -> tuple[ControlPlane, StartedDriver]:
    """Return an incremental run that waits for the test, after its first words."""
    project.hold_back("daily")
    plane = project.plane()
    driver = plane.runtime.start(DriverRun("daily", "incremental", "run-1"), "d1").driver
    eventually(lambda: Path(driver.log).read_text(), "it has said something", 60)
    return plane, driver


def say(driver: StartedDriver, text: str) -> None:
    with Path(driver.log).open("a") as log:
        log.write(text)


class Waiting:
    """A trigger as the triggerer runs it, with an open control plane, and the lines that it logs."""

    def __init__(self, plane: ControlPlane, goal: Goal, shown: dict[str, Any] | None = None) -> None:
        from tidemill_airflow.triggers import GoalTrigger

        self.lines: list[str] = []
        self._trigger = GoalTrigger({}, goal.model_dump(mode="json"), None, shown, poll_seconds=0.01)
        self._trigger._plane = plane
        self._trigger._log = self

    def info(self, text: str, *values: Any) -> None:
        self.lines.append(text % values)

    async def _event(self) -> dict[str, Any]:
        payload: dict[str, Any] = (await anext(self._trigger.run())).payload
        return json.loads(json.dumps(payload))

    def until_event(self) -> dict[str, Any]:
        return asyncio.run(self._event())

    def of_driver(self) -> list[str]:
        return [line.removeprefix("daily | ") for line in self.lines if line.startswith("daily | ")]


def test_the_whole_log_is_shown_up_to_its_last_line_and_nothing_of_it_again_to_whoever_goes_on(
    project: SmallProject,
) -> None:
    plane, driver = begun(project)
    goal = finish_of(driver)
    say(driver, "one\n\ttwo\r::group::\n")
    project.let_go("daily")
    first = Waiting(plane, goal)
    event = first.until_event()
    title, own, *rest = first.of_driver()
    assert (event["state"], own) == ("done", "fake driver run-1: wait")
    assert title == f"log of driver run-1, {driver.process}: {driver.log}"
    assert rest == ["one", r"    two\r: :group: :"]
    say(driver, "three\n")
    second = Waiting(plane, goal, event["shown"])
    second.until_event()
    assert second.of_driver() == ["three"]


def test_a_log_that_cannot_be_read_is_said_once_and_fails_nothing(project: SmallProject) -> None:
    from tidemill_airflow.followed_log import FollowedLog

    plane, driver = begun(project)
    followed = FollowedLog(finish_of(driver).model_dump(mode="json"))
    log = Path(driver.log)
    away = log.with_suffix(".away")
    log.rename(away)
    log.mkdir()
    read = [followed.read(plane) for _ in range(3)]
    log.rmdir()
    away.rename(log)
    assert [len(lines) for lines in read] == [1, 0, 0]
    assert "IsADirectory" in read[0][0] or "directory" in read[0][0]
    assert followed.read(plane)[-1] == "fake driver run-1: wait"


def test_of_a_stream_that_is_to_stop_only_its_end_is_shown(project: SmallProject) -> None:
    from tidemill_airflow.followed_log import FollowedLog

    plane = project.plane()
    driver = plane.runtime.start(DriverRun("orders", "stream", "run-1"), "d1").driver
    eventually(lambda: Path(driver.log).read_text(), "it has said something", 60)
    followed = FollowedLog(Goal(pipeline="orders", kind="stopped").model_dump(mode="json"))
    assert [line.partition(",")[0] for line in followed.read(plane)] == ["log of driver run-1"]
    say(driver, "draining\n")
    assert followed.read(plane) == ["draining"]


def test_a_driver_of_before_is_not_taken_for_the_one_that_is_waited_for(project: SmallProject) -> None:
    from tidemill_airflow.followed_log import FollowedLog

    plane, driver = begun(project)
    other = finish_of(driver).model_copy(update={"started_at": driver.started_at.replace(year=2020)})
    later = Goal(pipeline="daily", kind="progress", started_after=driver.claimed_at.replace(year=2100))
    for goal in (other, later, Goal(pipeline="orders", kind="progress")):
        assert FollowedLog(goal.model_dump(mode="json")).read(plane) == []


def test_after_a_look_that_failed_the_next_one_opens_the_way_anew(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may have been corrected since."""
    from tidemill_airflow.place import Place

    plane, driver = begun(project)
    project.let_go("daily")
    opened = []

    def open_place(_place: Place) -> ControlPlane:
        opened.append(True)
        if len(opened) == 1:
            raise UnavailableError("TIDE-CTRL-060", "no such connection")
        return plane

    monkeypatch.setattr(Place, "open", open_place)
    waiting = Waiting(plane, finish_of(driver))
    waiting._trigger._plane = None
    assert waiting.until_event()["state"] == "done"
    assert len(opened) == 2
    assert any("TIDE-CTRL-060" in line for line in waiting.lines)
