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
from tests.support.stream_requests import by_name, settled
from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.upgrade.verdict import Verdict
from tidemill.control.ask import stream_request
from tidemill.control.ask.goal import Goal
from tidemill.control.ask.stream_request import StreamRequest, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidemill.control.plane import ControlPlane

CONTEXT: Any = {
    "dag_run": SimpleNamespace(run_id="manual-1", run_after=datetime.now(UTC), triggering_user_name="ann"),
    "params": {"action": "restart", "reason": ""},
}


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with small_project(tmp_path / "project") as project:
        project.declare("orders")
        yield project.plane()


def asked(action: str, until: datetime | None = None) -> Any:
    """Return the context of a new DAG run."""
    moment = None if until is None else until.isoformat()
    run = SimpleNamespace(run_id=action, run_after=datetime.now(UTC), triggering_user_name="ann")
    return {"dag_run": run, "params": {"action": action, "reason": "broker move", "until": moment}}


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
    """Return the event of the trigger with which some work ends; the wait ends at `deadline`."""
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


def test_a_stream_is_suspended_until_a_moment_comes_back_then_and_is_not_stopped_by_the_old_run(
    plane: ControlPlane,
) -> None:
    from tidemill_airflow.stream_operators import StreamAction

    def act(context: Any) -> str:
        task = StreamAction(task_id="act", place=place_of(plane), pipeline="orders")
        return settled(plane, Goal.model_validate(task.execute(context))).state

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert act(asked("start")) == "done"
    assert act(asked("suspend", tomorrow)) == "done"
    assert by_name(reconcile_streams(plane)) == {"orders": "leave"}
    assert by_name(reconcile_streams(plane, clock=lambda: tomorrow)) == {"orders": "start"}
    with pytest.raises(UsageError, match="TIDE-CTRL-020"):
        act(asked("suspend", datetime.now(UTC)))
    assert plane.running("orders") is not None
    assert act(asked("suspend")) == "done"
    assert act(asked("resume")) == "done"


@pytest.mark.parametrize("changes", [{"until": "2026-02-30T06:00:00Z"}, {"action": "stop"}])
def test_a_form_that_makes_no_sense_is_refused_once(plane: ControlPlane, changes: dict[str, str]) -> None:
    from tidemill_airflow.stream_operators import StreamAction

    context = asked("suspend", datetime.now(UTC) + timedelta(days=1))
    context["params"].update(changes)
    task = StreamAction(task_id="act", place=place_of(plane), pipeline="orders")
    with pytest.raises(UsageError, match="TIDE-CTRL-020"):
        task.execute(context)
    assert read_desired(plane.store, plane.layout, "orders") is None


def test_a_restart_gives_its_worker_back_while_spark_plans_the_version(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait has its own deadline. Spark is asked in tests/unit/control/test_upgrade_visits.py."""
    from airflow.sdk.exceptions import TaskDeferred

    from tidemill_airflow.stream_operators import StreamAction

    task = StreamAction(task_id="act", place=place_of(plane), pipeline="orders")
    carry_out(plane, StreamRequest("orders", "start", "old", datetime.now(UTC), "ann"), 60, lambda _: None)
    file = plane.environment.project.pipeline_file("orders")
    file.write_text(file.read_text() + "run: {trigger: 7 seconds}\n")
    monkeypatch.setattr(stream_request, "verdict_so_far", lambda *_: None)
    monkeypatch.setattr(stream_request, "begin_planning", lambda *_, again: None)
    context = asked("restart")
    with pytest.raises(TaskDeferred) as planning:
        task.execute(context)
    assert planning.value.trigger.goal["kind"] == "planned"
    driver = plane.running("orders")
    assert driver is not None
    assert (driver.run_id, driver.drain_requested_at) == ("old", None)
    monkeypatch.setattr(stream_request, "verdict_so_far", lambda *_: Verdict("compatible", ()))
    goal = planning.value.trigger.goal
    event = {
        "state": "done",
        "message": "",
        "evidence": {},
        "goal": goal,
        "deadline": "2026-01-01T00:00:00+00:00",
    }
    with pytest.raises(TaskDeferred) as draining:
        task.go_on(context, event)
    assert draining.value.trigger.goal["kind"] == "stopped"
    assert datetime.fromisoformat(draining.value.trigger.deadline) > datetime.now(UTC)
