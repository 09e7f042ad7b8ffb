"""The task that brings all streams to their desired state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from tidemill.errors import TidemillError
from tidemill.names import STREAMS_ASSET_URI, STREAMS_DAG_ID
from tidemill_airflow.notify import notifier_of, notify
from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.report import Report
    from tidemill.control.visit import Outcome

# Keeps what the last reconciliation has found, in Airflow's asset state store: an XCom goes with its run.
STREAMS = Asset(name=STREAMS_DAG_ID, uri=STREAMS_ASSET_URI, group="tidemill")
REPORT_KEY = "report"

# Stands for all streams where none could be visited; no pipeline can have this name.
ALL_STREAMS = "all streams"


class ReconcileStreams(BaseOperator):
    """Visit every stream once: start, drain, leave or hold it.

    Fails at the end, naming them, if streams need a human; all others have been visited by then.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(inlets=[STREAMS], **arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, str]:
        """Reconcile; returns the action by pipeline."""
        from tidemill.control.report import changes, report_of

        outcomes = self._reconcile()
        summary: dict[str, str] = {outcome.pipeline: outcome.decision.action for outcome in outcomes}
        before = self._recall(context)
        report = report_of(before, outcomes, datetime.now(UTC))
        try:
            notifier = notifier_of()
        except TidemillError as error:
            raise AirflowFailException(f"{error}\n{complaint_of(report)}") from error
        if notify(notifier, context, changes(before, report)):
            self._remember(context, report)
        if report.red:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowFailException(complaint_of(report))
        return summary

    def _reconcile(self) -> list[Outcome]:
        from tidemill.control.streams import reconcile_streams
        from tidemill.control.visit import Outcome, undecided

        try:
            return reconcile_streams(
                self.place.open(), tell=lambda outcome: self.log.info("%s", line_of(outcome))
            )
        except TidemillError as error:
            return [Outcome(ALL_STREAMS, undecided(error))]

    def _recall(self, context: Context) -> Report:
        """What was found before; nothing where that is lost, which is then told once more."""
        from tidemill.control.report import Report

        try:
            return Report.model_validate(context["asset_state_store"][STREAMS].get(REPORT_KEY) or {})
        except Exception:
            self.log.exception("What was found before is not known.")
            return Report()

    def _remember(self, context: Context, report: Report) -> None:
        try:
            context["asset_state_store"][STREAMS].set(REPORT_KEY, report.model_dump(mode="json"))
        except Exception:
            self.log.exception("What was found cannot be kept; it will be told again.")


def line_of(outcome: Outcome) -> str:
    """A visit in one line: name, action, driver with its run, by which its log is found, reason."""
    decision = outcome.decision
    driver = f" ({outcome.driver.process}, run {outcome.driver.run_id})" if outcome.driver else ""
    until = f", until {decision.until:%H:%M:%S} UTC" if decision.until else ""
    return f"{outcome.pipeline}: {decision.action}{driver}: {decision.reason.partition(chr(10))[0]}{until}"


def complaint_of(report: Report) -> str:
    """What a person should know, stream by stream."""
    lines = [f"{name}: {trouble}" for name, trouble in sorted(report.red.items())]
    return "\n".join(["These streams need a human.", *lines])
