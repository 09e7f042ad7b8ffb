"""The trigger form of a DAG run, as it was filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.control.procedures.filled_form import refuse_unknown

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def filled_in(context: Context) -> dict[str, Any]:
    """Return all values of the trigger, including unknown fields, which Airflow's server accepts."""
    conf = getattr(context["dag_run"], "conf", None) or {}
    return {**conf, **dict(context["params"])}


def refuse_unknown_fields(task: BaseOperator, context: Context) -> None:
    """Raise if a field of the trigger is not in the form; for the first task of a DAG.

    Raises:
        UsageError: TIDE-CTRL-050.
    """
    dag = task.get_dag()
    if dag is not None:
        refuse_unknown(dag.dag_id, filled_in(context), list(dag.params))
