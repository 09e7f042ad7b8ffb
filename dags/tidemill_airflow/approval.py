"""Approval of a plan in a protected environment: the task that requests it, and the approver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from airflow.sdk import Context

# Ids of tasks whose results other tasks read.
PLAN, APPROVE = "plan", "approve"

# Maximum wait for an approval. A stopped stream stays stopped during the wait and starts again afterwards.
APPROVAL_TIME = timedelta(hours=1)


@dataclass(frozen=True)
class Approval:
    """Approver and time of an approval; empty if no approval was requested."""

    by: str = ""
    at: datetime | None = None


class ApprovePlan(ApprovalOperator):
    """Wait until a second user approves the plan of this run; skip if there is no plan to approve.

    The approver must not be the requester. The task that applies the plan checks this by the rule of the
    command line. The task has no retries, because an approval that timed out is not requested again.

    Args:
        what: Operation to approve; the pipeline's name follows.
    """

    def __init__(self, *, what: str, **arguments: Any) -> None:
        super().__init__(
            subject=f"{what} {{{{ params.pipeline }}}}: carry out this plan?",
            body=f"```\n{{{{ ti.xcom_pull(task_ids='{PLAN}')['text'] }}}}\n```",
            response_timeout=APPROVAL_TIME,
            **arguments,
        )

    def execute(self, context: Context) -> Any:
        """Request the approval."""
        plan = context["ti"].xcom_pull(task_ids=PLAN)
        if context["params"]["dry_run"] or not plan["has_work"]:
            raise AirflowSkipException("there is nothing to approve")
        context["ti"].xcom_push(key=PLAN, value=plan["text"])
        return super().execute(context)


def approval_of(context: Context) -> Approval:
    """Return the approval of this run's plan.

    Raises:
        AirflowFailException: If the approved plan is not the current plan, because only the plan task was
            cleared.
    """
    ti = context["ti"]
    told = ti.xcom_pull(task_ids=APPROVE) or {}
    if told.get("chosen_options") != [ApprovePlan.APPROVE]:
        return Approval()
    if ti.xcom_pull(task_ids=APPROVE, key=PLAN) != ti.xcom_pull(task_ids=PLAN)["text"]:
        raise AirflowFailException(
            f"another plan was approved: `{PLAN}` has been cleared since, and has made a new one. Read it in "
            f"the log of that task, and clear `{APPROVE}`: it asks again"
        )
    return Approval((told.get("responded_by_user") or {}).get("name", ""), told.get("responded_at"))
