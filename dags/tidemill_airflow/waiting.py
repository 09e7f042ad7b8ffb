"""How an operator waits for a goal, and what it makes of the answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemill_airflow.place import Place
from tidemill_airflow.triggers import GoalTrigger

if TYPE_CHECKING:
    from tidemill.control.goal import Goal
    from tidemill.control.runtime import Slot


def wait_for(
    operator: BaseOperator, place: Place, goal: Goal, then: str, deadline: str | None = None
) -> NoReturn:
    """Give the worker back until the goal is decided; then the operator's method `then` gets the `event`.

    Who waits on, after an event, hands over that event's `deadline`: a task has one, however often it waits.
    """
    patience = goal.patience(place.open())
    if deadline is None and patience is not None:
        deadline = (datetime.now(UTC) + patience).isoformat()
    trigger = GoalTrigger(place.as_document(), goal.model_dump(mode="json"), deadline)
    operator.defer(trigger=trigger, method_name=then)


def log_traces(operator: BaseOperator, place: Place, pipeline: str, slot: Slot = "main") -> None:
    """Put what a failed driver's place tells of it into the task's log; never a reason to fail otherwise."""
    try:
        runtime = place.open().runtime
        driver = runtime.last_start(pipeline, slot)
        lines = [] if driver is None else [f"{driver.process}: {driver.log}", *runtime.traces(driver)]
    except Exception as error:  # noqa: BLE001  # the driver failed; that must be told, whatever else does
        lines = [f"cannot look now: {type(error).__name__}: {error}"]
    operator.log.info("What the driver's place tells:\n%s", "\n".join(lines))


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
