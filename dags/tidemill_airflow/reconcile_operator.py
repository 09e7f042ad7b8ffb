"""The task that brings all streams to their desired state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.streams import Outcome


class ReconcileStreams(BaseOperator):
    """Visit every stream once: start, drain, leave or hold it.

    Fails at the end, naming them, if streams need a human; all others have been visited by then.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, str]:
        """Reconcile; returns the action by pipeline."""
        from tidemill.control.streams import reconcile_streams

        outcomes = reconcile_streams(self.place.open())
        self.log.info("Decided:\n%s", table_of(outcomes))
        summary: dict[str, str] = {outcome.pipeline: outcome.decision.action for outcome in outcomes}
        waiting = [outcome for outcome in outcomes if outcome.decision.needs_human]
        if waiting:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowFailException("\n".join(["These streams need a human.", *map(_complaint, waiting)]))
        return summary


def table_of(outcomes: list[Outcome]) -> str:
    """One line per stream: name, action, driver, reason."""
    rows = [("stream", "action", "driver", "why")]
    for outcome in outcomes:
        driver = outcome.driver.process if outcome.driver else "-"
        why = outcome.decision.reason.partition("\n")[0]
        until = f" (until {outcome.decision.until:%H:%M:%S} UTC)" if outcome.decision.until else ""
        rows.append((outcome.pipeline, outcome.decision.action, driver, why + until))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row[:3], widths, strict=True)), row[3]]) for row in rows
    ]
    return "\n".join(lines)


def _complaint(outcome: Outcome) -> str:
    decision = outcome.decision
    runbook = (
        f"\n  Runbook: {decision.runbook}"
        if decision.runbook and decision.runbook not in decision.reason
        else ""
    )
    return f"{outcome.pipeline}: {decision.action}: {decision.reason}{runbook}"
