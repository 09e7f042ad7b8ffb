"""The approval of a plan in a protected environment: the task that asks for it, and who has approved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from airflow.sdk import Context

# Task ids that other tasks read from.
PLAN, APPROVE = "plan", "approve"

# Longest wait for an approval. A stream that was stopped stands still meanwhile, and starts again afterwards.
APPROVAL_TIME = timedelta(hours=1)


@dataclass(frozen=True)
class Approval:
    """Who has approved, and when; nobody where nobody was asked."""

    by: str = ""
    at: datetime | None = None


class ApprovePlan(ApprovalOperator):
    """Wait until someone approves the plan of this run; skipped where there is nothing to approve.

    Whoever approves must be someone else than who asks: the task that applies the plan sees to it, by the
    rule of the command line. No retries: a question that nobody answered in time is not asked again.

    Args:
        what: What is to be carried out; the pipeline's name follows.
    """

    def __init__(self, *, what: str, **arguments: Any) -> None:
        super().__init__(
            subject=f"{what} {{{{ params.pipeline }}}}: carry out this plan?",
            body=f"```\n{{{{ ti.xcom_pull(task_ids='{PLAN}')['text'] }}}}\n```",
            response_timeout=APPROVAL_TIME,
            **arguments,
        )

    def execute(self, context: Context) -> Any:
        """Ask."""
        plan = context["ti"].xcom_pull(task_ids=PLAN)
        if context["params"]["dry_run"] or not plan["has_work"]:
            raise AirflowSkipException("there is nothing to approve")
        context["ti"].xcom_push(key=PLAN, value=plan["text"])
        return super().execute(context)


def approval_of(context: Context) -> Approval:
    """The approval of this run's plan.

    Raises:
        AirflowFailException: If the plan is not the one that was approved: its task alone was cleared.
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
