"""The two tasks of an action on one stream: act, then prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from tidemill_airflow.asker import asked_by
from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.trigger_form import refuse_unknown_fields
from tidemill_airflow.waiting import evidence_or_raise, proven, wait_for, wait_for_overdue

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.ask.stream_request import StreamRequest
    from tidemill.control.plane import ControlPlane


class StreamAction(BaseOperator):
    """Request the action of the trigger form: start, stop, restart, suspend or resume.

    A retry or a cleared task continues the same request and never starts a second driver.

    Args:
        place: Project and environment.
        pipeline: The stream.
    """

    operator_extra_links = LINKS
    runbook = "stream-does-not-start"

    def __init__(self, *, place: Place, pipeline: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the next step and return the goal to prove."""
        refuse_unknown_fields(self, context)
        return self._step(context, self.place.open())

    def go_on(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Continue after the version was planned or the old driver ended.

        If the old driver has to be killed, continue to wait for its end.
        """
        wait_for_overdue(self, self.place, event, "go_on")
        evidence_or_raise(event)
        return self._step(context, self.place.open(), event)

    def _step(
        self, context: Context, plane: ControlPlane, event: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        from tidemill.control.ask.goal import Goal
        from tidemill.control.ask.stream_request import begin

        request = request_of(context, self.pipeline)
        before = None if event is None else Goal.model_validate(event["goal"])
        goal = begin(plane, request, self.log.info, before)
        self.log.info("%s %s: next, %s", request.verb, request.pipeline, goal.kind)
        driver = plane.runtime.last_start(request.pipeline)
        if driver is not None:
            self.log.info("Driver %s: %s; its log: %s", driver.run_id, driver.process, driver.log)
        if not goal.final:
            is_same = before is not None and before.kind == goal.kind
            wait_for(self, self.place, goal, "go_on", event if is_same else None)
        return goal.model_dump(mode="json")


class ProveStream(BaseOperator):
    """Wait for the proof of an action: a batch committed by the new driver, or the receipt of the old one.

    Args:
        place: Project and environment.
        goal: The goal that the action returned.
    """

    template_fields = ("goal",)

    operator_extra_links = LINKS
    runbook = "stream-does-not-start"

    def __init__(self, *, place: Place, goal: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.goal = goal

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        """Wait for the goal."""
        from tidemill.control.ask.goal import Goal

        wait_for(self, self.place, Goal.model_validate(self.goal), "conclude")

    def conclude(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return the evidence, or fail with the reason; wait on if the driver has to be killed."""
        wait_for_overdue(self, self.place, event, "conclude")
        return proven(self, self.place, event)


def request_of(context: Context, pipeline: str) -> StreamRequest:
    """Return the request of this DAG run, which is the same in every try of all its tasks.

    Raises:
        UsageError: If `until` is not a valid time.
    """
    from tidemill.control.ask.run_id import run_id_of
    from tidemill.control.ask.stream_request import StreamRequest
    from tidemill.control.decide.suspension import parse_until

    run = context["dag_run"]
    # `run_after` does not change when the run is cleared, so the request stays the same.
    return StreamRequest(
        pipeline=pipeline,
        verb=context["params"]["action"],
        run_id=run_id_of(f"{run.run_id}-{pipeline}"),
        at=run.run_after,
        by=asked_by(context),
        reason=context["params"]["reason"],
        # Runs that were triggered before this parameter existed do not have it.
        until=parse_until(context["params"].get("until")),
    )
