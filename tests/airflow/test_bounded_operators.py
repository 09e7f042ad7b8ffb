"""A cleared task of a bounded run joins its running driver, and emits an event that is still missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, STREAM, SmallProject
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.plan import BackfillPlan, save_plan
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.plane import ControlPlane


@pytest.fixture
def project(bare_project: SmallProject) -> SmallProject:
    bare_project.declare("daily", INCREMENTAL)
    bare_project.declare("orders", STREAM)
    return bare_project


class Events:
    """The asset events of one try."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def __getitem__(self, _: object) -> Events:
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "extra":
            self.told.append(value)

    def add(self, _: object, extra: dict[str, Any]) -> None:
        self.told.append(extra)


def context_of(task: str, times_cleared: int, plan: str = "") -> Any:
    """Return Airflow's context for a task of one DAG run that was cleared this many times."""
    names = {"dag_id": "bounded", "run_id": "manual-1"}
    pulled = {"plan": {"digest": plan}, "approve": None}
    ti = SimpleNamespace(**names, task_id=task, map_index=-1, xcom_pull=lambda task_ids: pulled[task_ids])
    return {
        "ti": ti,
        "dag_run": SimpleNamespace(**names, clear_number=times_cleared, run_after=datetime.now(UTC)),
        "params": {"pipeline": "orders", "dry_run": False},
        "outlet_events": Events(),
    }


def place_of(plane: ControlPlane) -> Any:
    document = {"project": str(plane.environment.project.folder), "environment": "local"}
    return SimpleNamespace(open=lambda: plane, as_document=lambda: document, beside="")


def waits_for(work: Callable[[], object]) -> Goal:
    """Return the goal that a task waits for, without a worker."""
    from airflow.sdk.exceptions import TaskDeferred

    from tidemill_airflow.triggers import GoalTrigger

    with pytest.raises(TaskDeferred) as caught:
        work()
    assert isinstance(caught.value.trigger, GoalTrigger)
    return Goal.model_validate(caught.value.trigger.goal)


def ended(plane: ControlPlane, goal: Goal) -> dict[str, Any]:
    """Return the event of the trigger, once the driver has ended."""
    eventually(lambda: plane.running(goal.pipeline, goal.slot) is None, "it has ended", 60)
    proof = prove(plane, goal)
    told = {"state": proof.state, "message": proof.message, "evidence": dict(proof.evidence)}
    return {**told, "goal": goal.model_dump(mode="json")}


def planned(plane: ControlPlane, definition: str) -> str:
    """Return the digest of a plan of one day. It differs for each definition and offset of the stream."""
    bounds = parse_bounds("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")
    plan = BackfillPlan(pipeline="orders", definition=definition, bounds=bounds, by="record")
    save_plan(plane.store, plane.layout, plan)
    return plan.digest


def test_a_backfill_that_is_cleared_with_its_plan_joins_its_driver_at_work(project: SmallProject) -> None:
    """While a live stream runs, a repeated plan is a different plan, because the stream has moved on."""
    from tidemill_airflow.bounded_operators import BackfillRun

    plane = project.plane()
    project.hold_back("orders")
    task = BackfillRun(task_id="apply", place=place_of(plane))
    first = waits_for(lambda: task.execute(context_of("apply", 0, planned(plane, "before"))))
    driver = plane.running("orders", "backfill")

    cleared = context_of("apply", 1, planned(plane, "after"))
    assert waits_for(lambda: task.execute(cleared)) == first
    assert driver is not None
    assert plane.running("orders", "backfill") == driver
    project.let_go("orders")
    (table,) = task.finish(cleared, ended(plane, first))
    assert (table["table"], table["rows"]) == ("bronze/orders", 3)
    assert len(cleared["outlet_events"].told) == 1


def test_a_backfill_of_another_dag_run_is_not_joined(project: SmallProject) -> None:
    from tidemill.errors import UnavailableError
    from tidemill_airflow.bounded_operators import BackfillRun

    plane = project.plane()
    project.hold_back("orders")
    task = BackfillRun(task_id="apply", place=place_of(plane))
    waits_for(lambda: task.execute(context_of("apply", 0, planned(plane, "before"))))
    other = context_of("apply", 1, planned(plane, "after"))
    other["dag_run"].run_id = other["ti"].run_id = "manual-2"
    with pytest.raises(UnavailableError) as caught:
        task.execute(other)
    assert caught.value.error_id == "TIDE-CTRL-008"


def test_a_run_that_was_told_and_is_cleared_tells_nothing_old(project: SmallProject) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from tidemill_airflow.bounded_operators import IncrementalRun

    plane = project.plane()
    task = IncrementalRun(task_id="run", place=place_of(plane), pipeline="daily", tables=["bronze/daily"])
    green = context_of("run", 0)
    goal = waits_for(lambda: task.execute(green))
    (table,) = task.finish(green, ended(plane, goal))
    assert table["rows"] == 3

    project.behave("daily", "idle")
    cleared = context_of("run", 1)
    goal = waits_for(lambda: task.execute(cleared))
    with pytest.raises(AirflowSkipException):
        task.finish(cleared, ended(plane, goal))
    assert cleared["outlet_events"].told == []


def test_a_cleared_run_tells_what_was_written_before_if_its_task_could_not(project: SmallProject) -> None:
    """The worker was killed after the driver's end, before the task reported it."""
    from tidemill_airflow.bounded_operators import IncrementalRun

    plane = project.plane()
    task = IncrementalRun(task_id="run", place=place_of(plane), pipeline="daily", tables=["bronze/daily"])
    ended(plane, waits_for(lambda: task.execute(context_of("run", 0))))

    project.behave("daily", "idle")
    cleared = context_of("run", 1)
    goal = waits_for(lambda: task.execute(cleared))
    (table,) = task.finish(cleared, ended(plane, goal))
    assert (table["rows"], table["version"]) == (3, 0)
    assert [told["rows"] for told in cleared["outlet_events"].told] == [3]


def test_a_retry_of_a_task_that_has_told_before_it_was_lost_tells_the_same(project: SmallProject) -> None:
    """The worker was killed before Airflow had the task's result, so the events were lost."""
    from tidemill_airflow.bounded_operators import IncrementalRun

    plane = project.plane()
    task = IncrementalRun(task_id="run", place=place_of(plane), pipeline="daily", tables=["bronze/daily"])
    goal = waits_for(lambda: task.execute(context_of("run", 0)))
    told = task.finish(context_of("run", 0), ended(plane, goal))

    again = context_of("run", 0)
    assert waits_for(lambda: task.execute(again)) == goal
    assert task.finish(again, ended(plane, goal)) == told
    assert [extra["rows"] for extra in again["outlet_events"].told] == [3]
