"""The trigger form of a DAG run, as it was filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.control.procedures.filled_form import refuse_unknown

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def filled_in(context: Context) -> dict[str, Any]:
    """All that came with the trigger, also what no form has: Airflow's server lets it pass."""
    conf = getattr(context["dag_run"], "conf", None) or {}
    return {**conf, **dict(context["params"])}


def refuse_unknown_fields(task: BaseOperator, context: Context) -> None:
    """For the first task of a DAG with a form: see that nothing but its fields is filled in.

    Raises:
        UsageError: TIDE-CTRL-050.
    """
    dag = task.get_dag()
    if dag is not None:
        refuse_unknown(dag.dag_id, filled_in(context), list(dag.params))
