"""The name of what a task asks for, so that its repetition is the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def request_name(context: Context) -> str:
    """The same for every try of this DAG run, until it is cleared: whoever clears it asks anew."""
    return request_names(context)[-1]


def request_names(context: Context) -> list[str]:
    """That, after those of before this DAG run was cleared."""
    run = context["dag_run"]
    name = f"{run.dag_id}-{run.run_id}"
    times_cleared = getattr(run, "clear_number", None) or 0
    return [name, *(f"{name}-again-{number}" for number in range(1, times_cleared + 1))]
