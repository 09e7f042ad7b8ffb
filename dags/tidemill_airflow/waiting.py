"""Wait for a goal in an operator, and interpret the result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemill_airflow.followed_log import FollowedLog
from tidemill_airflow.place import Place
from tidemill_airflow.triggers import GoalTrigger

if TYPE_CHECKING:
    from tidemill.control.ask.goal import Goal


def wait_for(
    operator: BaseOperator, place: Place, goal: Goal, then: str, before: Mapping[str, Any] | None = None
) -> NoReturn:
    """Release the worker until the goal is decided; then the operator's method `then` gets the `event`.

    An operator that waits again passes the previous event as `before`. So a task has one deadline, and shows
    each line of the driver's log once.
    """
    waited = before or {}
    deadline, patience = waited.get("deadline"), goal.patience(place.open())
    if deadline is None and patience is not None:
        deadline = (datetime.now(UTC) + patience).isoformat()
    trigger = GoalTrigger(place.as_document(), goal.model_dump(mode="json"), deadline, waited.get("shown"))
    operator.defer(trigger=trigger, method_name=then)


def wait_for_overdue(operator: BaseOperator, place: Place, event: Mapping[str, Any], then: str) -> None:
    """Kill a driver that does not drain, and wait for its end; do nothing if it has ended."""
    from tidemill.control.ask.goal import Goal
    from tidemill.control.ask.stream_request import end_overdue

    if event["state"] == "overdue":
        goal = end_overdue(place.open(), Goal.model_validate(event["goal"]))
        wait_for(operator, place, goal, then, event)


def show_rest(operator: BaseOperator, place: Place, event: Mapping[str, Any]) -> None:
    """Write the rest of a failed driver's log into the task's log; never raise."""
    try:
        lines = FollowedLog(event["goal"], event.get("shown")).read(place.open())
    except Exception as error:  # noqa: BLE001  # the failure of the driver must be reported in any case
        lines = [f"cannot look now: {error}"]
    for line in lines:
        operator.log.info("%s | %s", event["goal"]["pipeline"], line)


def proven(operator: BaseOperator, place: Place, event: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence as `evidence_or_raise` does; first log the output of a failed driver."""
    if event["state"] != "done":
        show_rest(operator, place, event)
    evidence = evidence_or_raise(event)
    operator.log.info("Proven: %s", evidence)
    return evidence


def evidence_or_raise(event: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of the goal.

    Raises:
        AirflowFailException: If a retry would fail as well.
        AirflowException: If a retry may help.
    """
    if event["state"] == "done":
        return {"proof": event["message"], **event["evidence"]}
    message = event["message"] if event["state"] == "failed" else f"no proof in time: {event['message']}"
    raise AirflowException(message) if event["evidence"].get("retry") else AirflowFailException(message)
