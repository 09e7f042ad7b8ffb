"""A bounded run whose task has failed is drained, for any reason of the failure. Other runs continue."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, STREAM, SmallProject
from tidemill.control.ask.bounded_run import finish_of
from tidemill.control.ask.goal import prove
from tidemill.control.ask.waiting_task import (
    LONGEST_START,
    WaitingTask,
    forget_waiting,
    note_waiting,
    waiting_tasks,
)
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import ControlPlane

# Copy of the text in `tidemill_airflow.abandoned_runs`, whose import would load Airflow.
TASK_FAILED = "its task has failed in Airflow, and nobody waits for it"

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="incremental__daily", run_id="r-1", task_id="run", map_index=-1)}


@pytest.fixture
def project(bare_project: SmallProject) -> SmallProject:
    bare_project.declare("daily", INCREMENTAL)
    bare_project.declare("orders", STREAM)
    bare_project.hold_back("daily")
    return bare_project


def begun(plane: ControlPlane, run_id: str = "run-1") -> WaitingTask:
    """Return a run at work, started by a task that then lost it."""
    from tidemill_airflow.abandoned_runs import waiting_task_of

    run = DriverRun("daily", "incremental", run_id)
    task = waiting_task_of(CONTEXT, run)
    plane.own()
    note_waiting(plane, task)
    plane.runtime.start(run, "d1")
    return task


def look(plane: ControlPlane, state: str | None) -> list[str]:
    """Return the drained runs if Airflow reports this state of the task."""
    from tidemill_airflow.abandoned_runs import stop_abandoned

    asked: list[WaitingTask] = []

    def ask(task: WaitingTask) -> str | None:
        asked.append(task)
        return state

    drained = list(stop_abandoned(plane, ask))
    assert all((task.dag_id, task.dag_run_id) == ("incremental__daily", "r-1") for task in asked)
    return drained


def test_a_run_whose_task_has_failed_is_drained_once_and_says_why(project: SmallProject) -> None:
    plane = project.plane()
    begun(plane)
    driver = plane.running("daily")
    assert driver is not None
    assert look(plane, "failed") == [f"daily: drained driver run-1: {TASK_FAILED}"]
    assert look(plane, "failed") == []
    eventually(lambda: plane.running("daily") is None, "it has drained", 60)
    proof = prove(plane, finish_of(driver))
    assert (proof.state, proof.evidence["retry"]) == ("failed", False)
    # Though it was stopped before it had begun, and so left no receipt.
    assert proof.message.startswith("stopped by airflow: its task has failed")


@pytest.mark.parametrize("state", [None, "running", "deferred", "up_for_retry", "queued", "success"])
def test_a_run_of_any_other_task_goes_on(project: SmallProject, state: str | None) -> None:
    plane = project.plane()
    task = begun(plane)
    before = plane.running("daily")
    assert look(plane, state) == []
    assert plane.running("daily") == before
    # Nothing waits for the driver once its task was marked as a success.
    assert waiting_tasks(plane) == ([] if state == "success" else [task])


def test_a_driver_that_its_worker_starts_after_its_task_was_marked_as_failed_is_found_as_well(
    project: SmallProject,
) -> None:
    from tidemill_airflow.abandoned_runs import waiting_task_of

    plane = project.plane()
    plane.own()
    run = DriverRun("daily", "incremental", "run-1")
    task = waiting_task_of(CONTEXT, run)
    note_waiting(plane, task)
    assert look(plane, "failed") == []
    plane.runtime.start(run, "d1")
    assert look(plane, "failed") == [f"daily: drained driver run-1: {TASK_FAILED}"]
    note_waiting(plane, task.model_copy(update={"at": task.at - LONGEST_START - timedelta(seconds=1)}))
    assert look(plane, "failed") == []
    assert waiting_tasks(plane) == []


def test_a_run_whose_dag_run_was_deleted_goes_on_and_is_forgotten_at_its_end(project: SmallProject) -> None:
    plane = project.plane()
    task = begun(plane)
    old = task.model_copy(update={"at": task.at - LONGEST_START - timedelta(seconds=1)})
    note_waiting(plane, old)
    # A cleared task leaves such an old note: it may be about to start its next try.
    assert look(plane, None) == []
    assert waiting_tasks(plane) == [old]
    assert plane.running("daily") is not None
    project.let_go("daily")
    eventually(lambda: plane.running("daily") is None, "it has ended", 60)
    assert look(plane, None) == []
    assert waiting_tasks(plane) == []


def test_another_run_in_the_same_place_and_a_stream_are_left_alone(project: SmallProject) -> None:
    plane = project.plane()
    lost = begun(plane, "run-2").model_copy(update={"run_id": "run-1"})
    note_waiting(plane, lost)
    plane.runtime.start(DriverRun("orders", "stream", "run-1"), "d1")
    note_waiting(plane, lost.model_copy(update={"pipeline": "orders", "run_id": "run-3"}))
    forget_waiting(plane, "daily", "run-2")
    assert look(plane, "failed") == []
    assert plane.running("daily") is not None
    assert plane.running("orders") is not None


def test_where_the_root_is_another_control_planes_nothing_is_drained(project: SmallProject) -> None:
    from tidemill.checkpoint.root_owner import RootOwner, write_owner

    plane = project.plane()
    begun(plane)
    write_owner(
        plane.store, plane.layout, RootOwner(id="other", place="elsewhere", runtime="local", host="h")
    )
    (line,) = look(plane, "failed")
    assert line.startswith("daily: run-1 cannot be drained now")
    assert "TIDE-CTRL-010" in line
    driver = plane.running("daily")
    assert driver is not None
    assert driver.drain_requested_at is None


def test_a_damaged_note_hides_no_other(project: SmallProject) -> None:
    plane = project.plane()
    task = begun(plane)
    plane.store.write(f"{plane.layout.waiting_tasks}/a.b.json", b"{")
    plane.store.write_json(f"{plane.layout.waiting_tasks}/a.c.json", {"v": 1})
    assert waiting_tasks(plane) == [task]
    assert len(look(plane, "failed")) == 1
