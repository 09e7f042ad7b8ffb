"""Convert the known state of a pipeline to its row in the overview. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from tidemill.checkpoint.doctor.advice_rule import TUNING
from tidemill.checkpoint.doctor.measured import backlog_of, falls_behind
from tidemill.checkpoint.doctor.read_measured import batches_of
from tidemill.checkpoint.holds import Hold
from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.control.stream_status import PipelineState
from tidemill.spec.pipeline import PipelineSpec
from tidemill_airflow.links import runbook_address
from tidemill_airflow.place import Place
from tidemill_airflow.plugin.access import dag_of
from tidemill_airflow.plugin.answers import Health, HoldSeen, PipelineRow
from tidemill_airflow.plugin.data_loss import DataLoss, data_loss_of
from tidemill_airflow.plugin.due import why_overdue
from tidemill_airflow.plugin.failed_run import FailedRun, failed_run_of, words_of_error

# Batches in a sparkline.
SPARKLINE = 30

# A batch is slow if it takes longer than this multiple of its trigger interval. Slightly longer batches are
# normal load.
SLOW_SHARE = 1.5


@dataclass(frozen=True)
class Seen:
    """State of a pipeline in one snapshot.

    Args:
        spec: Its declaration; None if it cannot be read.
        holds: Holds that prevent its next start, even while it runs.
        report: Its driver's report about its query.
        rates: Input rows per second of its newest batches; processed rows for an incremental run.
        lags: Lag of the slowest partition after each batch, in records; empty if the source does not report
            it.
    """

    state: PipelineState
    spec: PipelineSpec | None = None
    holds: tuple[Hold, ...] = ()
    report: QueryReport | None = None
    rates: Sequence[float] = ()
    lags: Sequence[int] = ()

    @property
    def name(self) -> str:
        """Return the pipeline's name."""
        return self.state.facts.pipeline

    @property
    def current(self) -> Status | None:
        """Return the current status: of a stream only while its driver runs, of a run also after its end."""
        return self.state.status if self.state.facts.mode == "incremental" else self.state.own_status

    @property
    def is_held(self) -> bool:
        """Return True if it does not run and must not start."""
        return bool(self.holds) and self.state.facts.running is None

    @cached_property
    def loss(self) -> DataLoss | None:
        """Return the possible data loss; None if nothing is known."""
        return data_loss_of(self.state.status, self.spec, self.state.facts.now)

    @cached_property
    def failed_run(self) -> FailedRun | None:
        """Return the newest run of an incremental pipeline if it failed."""
        return failed_run_of(self.state.facts)

    @cached_property
    def overdue(self) -> str:
        """Return a message if an incremental pipeline is overdue; empty otherwise."""
        return "" if self.spec is None else why_overdue(self.state.facts, self.spec.run)

    @cached_property
    def growing_backlog(self) -> tuple[int, int] | None:
        """Return the earlier and current lag of a running stream that falls behind, by the doctor's rule."""
        own, report = self.state.own_status, self.report
        if own is None or own.mode != "stream" or report is None or report.run_id != own.run_id:
            return None
        batches = batches_of(report)
        return backlog_of(batches) if falls_behind(batches) else None


def row_of(seen: Seen, place: Place) -> PipelineRow:
    """Return the overview row of one pipeline."""
    facts, status, spec = seen.state.facts, seen.state.status, seen.spec
    loss, runbook, current = seen.loss, runbook_of(seen), seen.current
    return PipelineRow(
        name=seen.name,
        dag_id=dag_of(place, seen.name, facts.mode),
        mode=facts.mode or "gone",
        owner="" if spec is None else spec.owner,
        zone="" if spec is None or not spec.delta_sinks else spec.delta_sinks[0].table.partition("/")[0],
        health=health_of(seen),
        state=state_of(seen),
        reason=reason_of(seen),
        runbook=runbook,
        runbook_url=runbook_address(runbook),
        desired=seen.state.wish,
        lag=None if current is None else current.lag,
        lags=() if current is None else tuple(seen.lags[-SPARKLINE:]),
        rate=() if current is None else tuple(seen.rates[-SPARKLINE:]),
        batch_id=None if status is None else status.batch_id,
        batch_milliseconds=None if status is None else status.batch_milliseconds,
        trigger_seconds=facts.trigger.total_seconds() if facts.mode == "stream" else None,
        committed_at=None if status is None else status.batch_committed_at,
        quarantined_rows=None if status is None else status.quarantined_rows,
        late_rows=None if status is None else status.late_rows,
        loss_seconds=None if loss is None else max(0.0, loss.left.total_seconds()),
        loss_level=None if loss is None else loss.level,
        loss_words="" if loss is None else loss.basis,
        holds=tuple(map(_hold, seen.holds)),
    )


def health_of(seen: Seen) -> Health:
    """Return the health as one of four colours."""
    state, facts = seen.state, seen.state.facts
    level = None if seen.loss is None else seen.loss.level
    has_failed = state.stall is not None or seen.failed_run is not None
    if state.decision.needs_human or has_failed or level == "urgent":
        return "bad"
    if seen.holds:
        return "bad" if facts.is_wanted and seen.is_held else "warn"
    if level == "warn" or seen.overdue:
        return "warn"
    if facts.running is None and not facts.is_wanted:
        return "good" if facts.mode == "incremental" else "off"
    is_late = is_slow(seen) or seen.growing_backlog is not None
    is_away = state.decision.action in ("start", "wait", "unseen")
    return "warn" if is_away or _error_of(seen) is not None or is_late else "good"


def state_of(seen: Seen) -> str:
    """Return the state in one or two words."""
    state, facts = seen.state, seen.state.facts
    if seen.is_held:
        return "held"
    if state.decision.needs_human:
        return {"hold": "crashed", "refused": "refused"}.get(state.decision.action, "failed")
    if state.stall is not None:
        return state.stall.kind
    if facts.running is None:
        return _resting(seen)
    if state.own_status is None:
        return "starting"
    return "draining" if facts.running.drain_requested_at else state.own_status.state


def _resting(seen: Seen) -> str:
    """Return the state of a pipeline without a driver and without trouble."""
    facts = seen.state.facts
    if seen.failed_run is not None:
        return "failed"
    if seen.overdue:
        return "overdue"
    if facts.mode == "incremental":
        return "by schedule" if facts.desired is None else facts.desired.state
    if facts.is_wanted:
        return "to be started"
    return "stopped" if facts.desired is None else facts.desired.state


def reason_of(seen: Seen) -> str:
    """Return the reason in readable form, with additional facts on separate lines."""
    loss = "" if seen.loss is None else seen.loss.warning
    next_start = f"its next start is refused: {_why_held(seen)}" if seen.holds and not seen.is_held else ""
    return "\n".join(filter(None, (_reason(seen), next_start, loss)))


def _reason(seen: Seen) -> str:
    state = seen.state
    if seen.is_held:
        return _why_held(seen)
    if state.decision.needs_human:
        return state.decision.reason
    if state.stall is not None:
        return state.stall.words(state.facts.now)
    if seen.failed_run is not None:
        return seen.failed_run.cause
    error = _error_of(seen)
    if error is not None:
        return words_of_error(error)
    if seen.overdue:
        return seen.overdue
    if seen.growing_backlog is not None:
        before, now = seen.growing_backlog
        return f"falls behind: its slowest partition was {before:,} records behind, and is {now:,} by now"
    if is_slow(seen):
        return "a batch takes longer than its trigger"
    is_as_planned = state.decision.reason == "runs" or _resting(seen) == "by schedule"
    return "" if is_as_planned else state.decision.reason


def _why_held(seen: Seen) -> str:
    return "; ".join(f"{hold.why} (by {hold.by})" for hold in seen.holds)


def runbook_of(seen: Seen) -> str:
    """Return the runbook page for the problem."""
    if seen.is_held:
        return "hold"
    if seen.state.decision.runbook:
        return seen.state.decision.runbook
    if seen.state.stall is not None:
        return seen.state.stall.runbook
    if seen.failed_run is not None and seen.failed_run.runbook:
        return seen.failed_run.runbook
    if seen.holds:
        return "hold"
    if seen.loss is not None and seen.loss.warning:
        return "retention-expired"
    return "" if seen.growing_backlog is None else TUNING


def is_slow(seen: Seen) -> bool:
    """Return True if the newest batch of a running stream took clearly longer than its trigger."""
    status, trigger = seen.state.own_status, seen.state.facts.trigger
    if status is None or status.batch_milliseconds is None or seen.state.facts.mode != "stream":
        return False
    # A trigger of 0 seconds sets no limit.
    slow = max(trigger, timedelta(seconds=1)) * SLOW_SHARE
    return bool(trigger) and timedelta(milliseconds=status.batch_milliseconds) > slow


def _error_of(seen: Seen) -> dict[str, Any] | None:
    """Return the error that blocks a running driver."""
    status = seen.state.status
    return None if seen.state.facts.running is None or status is None else status.error


def _hold(hold: Hold) -> HoldSeen:
    return HoldSeen(id=hold.id, by=hold.by, since=hold.at, why=hold.why, fix=hold.to_do)
