"""How an operator waits for a goal, and what it makes of the answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemill_airflow.place import Place
from tidemill_airflow.triggers import GoalTrigger

if TYPE_CHECKING:
    from tidemill.control.goal import Goal


def wait_for(
    operator: BaseOperator, place: Place, goal: Goal, then: str, timeout: timedelta | None = None
) -> NoReturn:
    """Give the worker back until the goal is decided; then the operator's method `then` gets the `event`."""
    deadline = None if timeout is None else (datetime.now(UTC) + timeout).isoformat()
    trigger = GoalTrigger(place.as_document(), goal.model_dump(mode="json"), deadline)
    operator.defer(trigger=trigger, method_name=then)


def evidence_or_raise(event: dict[str, Any]) -> dict[str, Any]:
    """What proves the goal.

    Raises:
        AirflowFailException: If a retry would say the same.
        AirflowException: If a retry may help.
    """
    if event["state"] == "done":
        return {"proof": event["message"], **event["evidence"]}
    message = event["message"] if event["state"] == "failed" else f"no proof in time: {event['message']}"
    raise AirflowException(message) if event["evidence"].get("retry") else AirflowFailException(message)
