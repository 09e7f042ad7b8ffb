"""The name of what a task asks for, so that its repetition is the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def request_name(context: Context) -> str:
    """The same for every try of this DAG run, until it is cleared: whoever clears it asks anew."""
    run = context["dag_run"]
    times_cleared = getattr(run, "clear_number", None)
    again = f"-again-{times_cleared}" if times_cleared else ""
    return f"{run.dag_id}-{run.run_id}{again}"
