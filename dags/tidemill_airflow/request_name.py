"""Names of a task's requests: a retry of the task has the same name, so it is the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def request_name(context: Context) -> str:
    """Return the name that every try of this DAG run shares until it is cleared; a clear is a new request."""
    return request_names(context)[-1]


def request_names(context: Context) -> list[str]:
    """Return this name after the names from before each clear of this DAG run."""
    run = context["dag_run"]
    name = f"{run.dag_id}-{run.run_id}"
    times_cleared = getattr(run, "clear_number", None) or 0
    return [name, *(f"{name}-again-{number}" for number in range(1, times_cleared + 1))]
