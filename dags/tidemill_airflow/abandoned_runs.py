"""Bounded runs whose task has failed, by a person or by itself: nobody waits for them; they are drained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.utils.state import TaskInstanceState

from tidemill.errors import TidemillError
from tidemill_airflow.task_state import state_of_task

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.ask.waiting_task import WaitingTask
    from tidemill.control.driver_command import DriverRun
    from tidemill.control.plane import ControlPlane
    from tidemill.control.runtime import StartedDriver

# Why such a run is stopped.
TASK_FAILED = "its task has failed in Airflow, and nobody waits for it"

# Of these nobody waits any more, and the driver is nobody's to stop: marked as a success, it may finish.
_OVER = (TaskInstanceState.SUCCESS, TaskInstanceState.SKIPPED, TaskInstanceState.REMOVED)


def waiting_task_of(context: Context, run: DriverRun | StartedDriver) -> WaitingTask:
    """The task of a context, as the one that waits for a run."""
    from tidemill.control.ask.waiting_task import WaitingTask
    from tidemill.control.runtime import slot_of

    task: Any = context["ti"]
    return WaitingTask(
        pipeline=run.pipeline,
        slot=slot_of(run.mode),
        run_id=run.run_id,
        dag_id=task.dag_id,
        dag_run_id=task.run_id,
        task_id=task.task_id,
        map_index=-1 if task.map_index is None else task.map_index,
    )


def state_of(task: WaitingTask) -> str | None:
    """State of a waiting task."""
    return state_of_task(task.dag_id, task.dag_run_id, task.task_id, task.map_index)


def stop_abandoned(plane: ControlPlane, ask: Callable[[WaitingTask], str | None] = state_of) -> Iterator[str]:
    """Drain each run whose task has failed, and forget tasks that are over; tells what was done by lines.

    A cleared task has no state, or one on the way to its next try: its run goes on. A failed one is looked at
    again as long as its worker may still be about to start the driver; so is one without a state, which may
    be that of a DAG run that was deleted: nobody would ever tell that it is over.
    """
    from tidemill.control.ask.waiting_task import waiting_tasks

    for task in waiting_tasks(plane):
        try:
            yield from _settle(plane, task, ask(task))
        except TidemillError as error:
            # Not in the way of the others; due in a minute again.
            yield f"{task.pipeline}: {task.run_id} cannot be drained now, {TASK_FAILED}: {error}"


def _settle(plane: ControlPlane, task: WaitingTask, state: str | None) -> Iterator[str]:
    from tidemill.control.ask.bounded_run import stop_waited_for
    from tidemill.control.ask.waiting_task import forget_waiting

    has_failed = state == TaskInstanceState.FAILED
    driver = stop_waited_for(plane, task, "airflow", TASK_FAILED) if has_failed else None
    if driver is not None:
        yield f"{task.pipeline}: drained driver {driver.run_id}: {TASK_FAILED}"
    is_old = not task.may_still_start(datetime.now(UTC))
    has_left = state is None and is_old and not task.is_about(plane.running(task.pipeline, task.slot))
    if state in _OVER or (has_failed and is_old) or has_left:
        forget_waiting(plane, task.pipeline, task.run_id)
