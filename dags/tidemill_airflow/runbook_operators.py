"""The tasks of a runbook DAG (stop, plan, approve, apply, start), which call the command line's code."""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidemill.control.procedures.filled_form import Asked, read_form
from tidemill.control.procedures.verb_forms import FORMS
from tidemill_airflow.advance_log import AdvanceLog
from tidemill_airflow.approval import PLAN, approval_of
from tidemill_airflow.asker import command, who_asks
from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.task_state import failed_tasks
from tidemill_airflow.trigger_form import filled_in
from tidemill_airflow.waiting import evidence_or_raise, proven, wait_for, wait_for_overdue

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.ask.stream_request import StreamRequest
    from tidemill.control.procedures.run import Asking


class StopForVerb(BaseOperator):
    """Stop the stream whose checkpoint will change; skipped on a dry run, or if no stream should run.

    Args:
        place: Project and environment.
        verb: The operation.
    """

    def __init__(self, *, place: Place, verb: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.verb = verb

    def execute(self, context: Context) -> None:
        """Request the stop and wait without a worker."""
        from tidemill.checkpoint.procedure.request import check_reason
        from tidemill.control.procedures.standstill import stand_still

        asked = form_of(self.verb, context)
        if asked.dry_run:
            raise AirflowSkipException("dry run: the stream goes on")
        check_reason(asked.reason)
        goal = stand_still(self.place.open(), stop_request_of(context, asked))
        if goal is None:
            raise AirflowSkipException("nothing is to be stopped")
        wait_for(self, self.place, goal, "conclude")

    def conclude(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return how the driver ended; kill a driver that does not drain, and continue to wait."""
        wait_for_overdue(self, self.place, event, "conclude")
        return evidence_or_raise(event)


class PlanVerb(BaseOperator):
    """Show the plan of an operation without changing anything. A refusal is final; a retry would not help.

    Args:
        place: Project and environment.
        verb: The operation.
    """

    operator_extra_links = LINKS

    def __init__(self, *, place: Place, verb: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.verb = verb
        self.runbook = FORMS[verb].page

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan and return the plan as text and as plain data."""
        from tidemill.control.procedures.runbook import show_plan

        asked = form_of(self.verb, context)
        shown = show_plan(self.place.open(), asked, asking_of(context, self.place, asked))
        self.log.info("%s %s:\n%s", asked.verb, asked.pipeline, shown["text"])
        if not shown["has_work"]:
            self.log.info("There is nothing to do.")
        return shown


class ApplyVerb(BaseOperator):
    """Apply exactly the plan that was shown; skipped on a dry run, or if it changes nothing.

    A retry continues after the last finished step. A cleared run finds that its request is finished.

    Args:
        place: Project and environment.
        verb: The operation.
    """

    operator_extra_links = LINKS

    def __init__(self, *, place: Place, verb: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.verb = verb
        self.runbook = FORMS[verb].page

    def execute(self, context: Context) -> dict[str, Any]:
        """Apply the plan and return the result."""
        from tidemill.control.procedures.run import Hearers
        from tidemill.control.procedures.runbook import carry_out_plan

        shown = context["ti"].xcom_pull(task_ids=PLAN)
        if context["params"]["dry_run"]:
            raise AirflowSkipException("dry run: the plan is in the log of the task `plan`")
        if not shown["has_work"]:
            raise AirflowSkipException("there is nothing to do")
        asked = form_of(self.verb, context)
        asking = asking_of(context, self.place, asked, approval_of(context).by)
        self.log.info("%s %s, asked by %s", asked.verb, asked.pipeline, asking.person)
        hearers = Hearers(lambda step: self.log.info("%s: done", step), AdvanceLog(self.log.info).tell)
        done = carry_out_plan(self.place.open(), asked, asking, shown, hearers)
        self.log.info("Done. Next, unless this run does it: %s", done["next"])
        return done


class StartAfterVerb(BaseOperator):
    """Start the stream that this run stopped, even if the operation failed, and prove it by a batch.

    While an operation is unfinished, its hold prevents the start. The task then fails and names the command
    that completes the operation.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> None:
        """Request the start and wait without a worker."""
        from tidemill.control.procedures.standstill import go_on

        asked = Asked("", context["params"]["pipeline"], str(context["params"]["reason"]))
        goal = go_on(self.place.open(), stop_request_of(context, asked))
        if goal is None:
            raise AirflowSkipException("this run has stopped no stream, or someone has asked since")
        wait_for(self, self.place, goal, "conclude")

    def conclude(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return the batch that proves the start, or fail with the driver's error."""
        return proven(self, self.place, event)


class EndOfVerb(BaseOperator):
    """Fail if a task of this run failed, even if its stream was started again."""

    def execute(self, context: Context) -> None:
        """Check the other tasks."""
        run = context["dag_run"]
        failed = failed_tasks(run.dag_id, run.run_id)
        if failed:
            raise AirflowFailException(f"failed before: {', '.join(failed)}; see their logs")


def form_of(verb: str, context: Context) -> Asked:
    """Return the trigger form, including fields that the form does not have.

    Raises:
        UsageError: TIDE-CTRL-050.
    """
    return read_form(verb, filled_in(context))


def asking_of(context: Context, place: Place, asked: Asked, approved_by: str = "") -> Asking:
    """Return requester, approver and reason, which are the same in every try of this DAG run."""
    from tidemill.checkpoint.procedure.request import request_stem
    from tidemill.control.procedures.run import Asking

    run = context["dag_run"]
    stem = request_stem(asked.verb, {"arguments": list(asked.words)})
    return Asking(
        asked.verb,
        asked.words,
        who_asks(context),
        partial(command, place),
        approved_by=approved_by,
        reason=f"{asked.reason} (DAG run {run.run_id})",
        # `run_after` does not change when the run is cleared, so the request stays the same.
        request_id=f"{stem}-{run.run_after.astimezone(UTC):%Y%m%dt%H%M%S%f}",
    )


def stop_request_of(context: Context, asked: Asked) -> StreamRequest:
    """Return the stop that this DAG run requests; its start refers to this request."""
    from tidemill.control.ask.run_id import run_id_of
    from tidemill.control.ask.stream_request import StreamRequest

    run = context["dag_run"]
    return StreamRequest(
        pipeline=asked.pipeline,
        verb="stop",
        run_id=run_id_of(f"{run.dag_id}-{run.run_id}-{asked.pipeline}"),
        at=run.run_after,
        by=f"{who_asks(context)}, DAG run {run.dag_id} {run.run_id}",
        reason=asked.reason,
    )
