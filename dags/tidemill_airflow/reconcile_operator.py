"""The task that reconciles all streams with their desired state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from tidemill.airflow_names import STREAMS_DAG_ID, name_beside, streams_asset_uri
from tidemill.errors import TidemillError
from tidemill_airflow.abandoned_runs import stop_abandoned
from tidemill_airflow.notify import Channels, channels_of, tell_all
from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.decide.report import Report
    from tidemill.control.decide.visit import Outcome
    from tidemill.control.news import Memory

REPORT_KEY = "report"

# Replaces the pipeline names if no stream could be visited; no pipeline can have this name.
ALL_STREAMS = "all streams"


def streams_asset(beside: str = "") -> Asset:
    """Return the asset of all streams.

    Its state keeps the last report, because an XCom is deleted with its run.
    """
    return Asset(name=name_beside(STREAMS_DAG_ID, beside), uri=streams_asset_uri(beside), group="tidemill")


class ReconcileStreams(BaseOperator):
    """Visit every stream once: start, drain, leave or hold it.

    After all visits, the task fails if streams need an operator, and names them.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(inlets=[streams_asset(place.beside)], **arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, str]:
        """Reconcile and return the action for each pipeline."""
        from tidemill.control.decide.report import report_of

        outcomes = self._reconcile(context)
        summary: dict[str, str] = {outcome.pipeline: outcome.decision.action for outcome in outcomes}
        memory = self._recall(context)
        report = report_of(memory, outcomes, datetime.now(UTC))
        channels = channels_of(self.place.declared())
        self._tell(context, channels, memory, report)
        # Runs last because it has no time limit, and the channels have been notified by then.
        self._stop_abandoned()
        complaint = complaint_of(report, channels)
        if complaint:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowFailException(complaint)
        return summary

    def _tell(self, context: Context, channels: Channels, memory: Memory, report: Report) -> None:
        """Send each channel the changes it does not know, and remember the channels that failed."""
        from tidemill.control.decide.report import changes
        from tidemill.control.news import after_telling, news_for, notice_of

        news = changes(memory, report)
        if news:
            self.log.info("Changed:\n%s", "\n".join(map(str, news)))
        environment = self.place.environment_name
        notices = {
            name: notice_of(changed, environment)
            for name, changed in news_for(channels.names, memory, report).items()
        }
        self._remember(context, after_telling(memory, report, tell_all(channels, notices, context)))

    def _reconcile(self, context: Context) -> list[Outcome]:
        from tidemill.control.decide.all_streams import reconcile_streams
        from tidemill.control.decide.visit import Outcome, undecided

        run = context["dag_run"]
        try:
            plane = replace(self.place.open(), dag_run=f"{run.dag_id} {run.run_id}")
            return reconcile_streams(plane, tell=lambda outcome: self.log.info("%s", line_of(outcome)))
        except TidemillError as error:
            return [Outcome(ALL_STREAMS, undecided(error))]

    def _stop_abandoned(self) -> None:
        """Drain bounded runs whose task has failed; failures are tried again in a minute."""
        try:
            for line in stop_abandoned(self.place.open()):
                self.log.info("%s", line)
        except Exception:
            self.log.exception("Bounded runs whose task has failed could not be looked for.")

    def _recall(self, context: Context) -> Memory:
        """Return the previous findings; empty if they are lost, and then all findings are sent again."""
        from tidemill.control.news import Memory

        try:
            return Memory.model_validate(self._state(context).get(REPORT_KEY) or {})
        except Exception:
            self.log.exception("What was found before is not known.")
            return Memory()

    def _state(self, context: Context) -> Any:
        return context["asset_state_store"][streams_asset(self.place.beside)]

    def _remember(self, context: Context, memory: Memory) -> None:
        try:
            self._state(context).set(REPORT_KEY, memory.model_dump(mode="json"))
        except Exception:
            self.log.exception("What was found cannot be kept; it will be told again.")


def line_of(outcome: Outcome) -> str:
    """Return a visit as one line: pipeline, action, driver and run (to find its log), reason."""
    decision = outcome.decision
    driver = f" ({outcome.driver.process}, run {outcome.driver.run_id})" if outcome.driver else ""
    until = f", until {decision.until:%H:%M:%S} UTC" if decision.until else ""
    return f"{outcome.pipeline}: {decision.action}{driver}: {decision.reason.partition(chr(10))[0]}{until}"


def complaint_of(report: Report, channels: Channels) -> str:
    """Return the problems of streams and of unusable channels; empty if there are none."""
    refused = [str(error) for error in channels.refused.values()]
    lines = [f"{name}: {trouble}" for name, trouble in sorted(report.red.items())]
    return "\n".join([*refused, *(["These streams need a human.", *lines] if lines else [])])
