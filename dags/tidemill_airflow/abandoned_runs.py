"""Drains bounded runs whose Airflow task has failed, because no task waits for them any more."""

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

# Reason given when such a run is stopped.
TASK_FAILED = "its task has failed in Airflow, and nobody waits for it"

# No task waits for runs in these states, but their driver must not be stopped: a run that is marked as a
# success may finish.
_OVER = (TaskInstanceState.SUCCESS, TaskInstanceState.SKIPPED, TaskInstanceState.REMOVED)


def waiting_task_of(context: Context, run: DriverRun | StartedDriver) -> WaitingTask:
    """Return the task of the context as the task that waits for a run."""
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
    """Return the state of a waiting task."""
    return state_of_task(task.dag_id, task.dag_run_id, task.task_id, task.map_index)


def stop_abandoned(plane: ControlPlane, ask: Callable[[WaitingTask], str | None] = state_of) -> Iterator[str]:
    """Drain each run whose task has failed, delete the records of finished tasks, and yield log lines.

    The run of a cleared task continues. A cleared task has no state, or a state on the way to its next try. A
    failed task is checked again while its worker may still start the driver. A task without a state is
    checked as long, because its DAG run may have been deleted and would then never report an end.
    """
    from tidemill.control.ask.waiting_task import waiting_tasks

    for task in waiting_tasks(plane):
        try:
            yield from _settle(plane, task, ask(task))
        except TidemillError as error:
            # One error must not stop the others. The next check is in a minute.
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
