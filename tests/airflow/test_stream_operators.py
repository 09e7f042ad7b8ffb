"""A stream's tasks about a driver that does not go: one kill and one deadline, however often they wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.lost_node import PlaceOfALostNode, asked_to_stop
from tests.support.small_project import small_project
from tidemill.control.goal import Goal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidemill.control.plane import ControlPlane

CONTEXT: Any = {
    "dag_run": SimpleNamespace(run_id="manual-1", run_after=datetime.now(UTC), triggering_user_name="ann"),
    "params": {"action": "restart", "reason": ""},
}


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with small_project(tmp_path / "project") as project:
        project.declare("orders")
        plane = project.plane()
        late = asked_to_stop(plane.environment.spec.grace_period + timedelta(seconds=10))
        yield replace(plane, runtime=PlaceOfALostNode(plane.runtime, late))


def place_of(plane: ControlPlane) -> Any:
    document = {"project": str(plane.environment.project.folder), "environment": "local"}
    return SimpleNamespace(open=lambda: plane, as_document=lambda: document)


def kills(plane: ControlPlane) -> int:
    assert isinstance(plane.runtime, PlaceOfALostNode)
    return len(plane.runtime.kills)


def waited(plane: ControlPlane, work: Callable[[], object], method: str, deadline: str) -> dict[str, Any]:
    """The event of the trigger that some work ends in; it waits no longer than until `deadline`."""
    from airflow.sdk.exceptions import TaskDeferred

    from tidemill_airflow.triggers import GoalTrigger

    with pytest.raises(TaskDeferred) as caught:
        work()
    trigger = caught.value.trigger
    assert isinstance(trigger, GoalTrigger)
    assert (caught.value.method_name, trigger.deadline) == (method, deadline)
    trigger.poll_seconds = 0.01
    trigger._plane = plane

    async def first() -> Any:
        return await anext(trigger.run())

    payload: dict[str, Any] = asyncio.run(first()).payload
    return payload


@pytest.mark.parametrize(("method", "final"), [("go_on", False), ("conclude", True)])
def test_a_driver_that_outlives_its_kill_fails_the_task_when_its_one_deadline_is_over(
    lost: ControlPlane, method: str, final: bool
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from tidemill_airflow.stream_operators import ProveStream, StreamAction

    goal = Goal(pipeline="orders", kind="stopped", final=final).model_dump(mode="json")
    task: StreamAction | ProveStream
    if final:
        task = ProveStream(task_id="prove", place=place_of(lost), goal=goal)
    else:
        task = StreamAction(task_id="act", place=place_of(lost), pipeline="orders")
    deadline = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
    overdue = {"state": "overdue", "message": "", "evidence": {}, "goal": goal, "deadline": deadline}
    event = waited(lost, lambda: getattr(task, method)(CONTEXT, overdue), method, deadline)
    assert (event["state"], event["deadline"], kills(lost)) == ("pending", deadline, 1)
    assert datetime.now(UTC) >= datetime.fromisoformat(deadline)
    with pytest.raises(AirflowFailException, match="it was killed, and is still there"):
        getattr(task, method)(CONTEXT, event)
    assert kills(lost) == 1


def test_the_step_after_a_drain_waits_no_longer_than_the_drain_might_have(lost: ControlPlane) -> None:
    from tidemill_airflow.stream_operators import StreamAction

    goal = Goal(pipeline="orders", kind="stopped", final=False).model_dump(mode="json")
    task = StreamAction(task_id="act", place=place_of(lost), pipeline="orders")
    deadline = (datetime.now(UTC) + timedelta(seconds=0.1)).isoformat()
    done = {"state": "done", "message": "", "evidence": {}, "goal": goal, "deadline": deadline}
    assert waited(lost, lambda: task.go_on(CONTEXT, done), "go_on", deadline)["state"] == "overdue"
