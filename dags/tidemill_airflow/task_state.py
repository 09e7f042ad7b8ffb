"""States of the tasks of any DAG run, read from Airflow."""

from __future__ import annotations

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.state import TaskInstanceState

_FAILED = (TaskInstanceState.FAILED, TaskInstanceState.UPSTREAM_FAILED)


def state_of_task(dag_id: str, dag_run_id: str, task_id: str, map_index: int) -> str | None:
    """Return the state of a task; None if its run was deleted, and while it is about to run again."""
    states = RuntimeTaskInstance.get_task_states(
        dag_id=dag_id, task_ids=[task_id], run_ids=[dag_run_id], map_index=map_index
    )
    state: str | None = states.get(dag_run_id, {}).get(task_id)
    return state


def failed_tasks(dag_id: str, dag_run_id: str) -> list[str]:
    """Return the tasks of a run that have failed or were skipped because an upstream task failed."""
    states = RuntimeTaskInstance.get_task_states(dag_id=dag_id, run_ids=[dag_run_id])
    return sorted(task for task, state in states.get(dag_run_id, {}).items() if state in _FAILED)
