"""What is known of a pipeline -> its row in the overview. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.checkpoint.holds import Hold
from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.retention.clock import ASSUMED_BROKER_RETENTION, time_to_data_loss
from tidemill.control.stream_status import PipelineState
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.units import format_duration
from tidemill_airflow.place import Place
from tidemill_airflow.plugin.access import dag_of
from tidemill_airflow.plugin.answers import Health, HoldSeen, PipelineRow

# Batches in a sparkline.
SPARKLINE = 30

# A batch that takes longer than its trigger for this many triggers' time is late: one slow batch is load.
SLOW_SHARE = 1.5


@dataclass(frozen=True)
class Seen:
    """What one look has told of a pipeline.

    Args:
        spec: Its declaration; None if it cannot be read.
        holds: What forbids its start.
        report: What its driver says of its query.
        rates: Rows a second of its newest batches.
        lags: Records that waited after each, of the slowest partition; none where the source does not tell.
    """

    state: PipelineState
    spec: PipelineSpec | None = None
    holds: tuple[Hold, ...] = ()
    report: QueryReport | None = None
    rates: Sequence[float] = ()
    lags: Sequence[int] = ()

    @property
    def name(self) -> str:
        """The pipeline."""
        return self.state.facts.pipeline


def row_of(seen: Seen, place: Place) -> PipelineRow:
    """One pipeline in the overview."""
    facts, status, spec = seen.state.facts, seen.state.status, seen.spec
    loss, words = _loss(seen)
    return PipelineRow(
        name=seen.name,
        dag_id=dag_of(place, seen.name, facts.mode),
        mode=facts.mode or "gone",
        owner="" if spec is None else spec.owner,
        zone="" if spec is None or not spec.delta_sinks else spec.delta_sinks[0].table.partition("/")[0],
        health=health_of(seen),
        state=state_of(seen),
        reason=reason_of(seen),
        runbook=runbook_of(seen),
        desired=seen.state.wish,
        lag=None if status is None else status.lag,
        lags=tuple(seen.lags[-SPARKLINE:]),
        rate=tuple(seen.rates[-SPARKLINE:]),
        batch_id=None if status is None else status.batch_id,
        batch_milliseconds=None if status is None else status.batch_milliseconds,
        trigger_seconds=facts.trigger.total_seconds() if facts.mode == "stream" else None,
        committed_at=None if status is None else status.batch_committed_at,
        quarantined_rows=None if status is None else status.quarantined_rows,
        late_rows=None if status is None else status.late_rows,
        loss_seconds=loss,
        loss_words=words,
        holds=tuple(map(_hold, seen.holds)),
    )


def health_of(seen: Seen) -> Health:
    """What a person must know, in one of four colours."""
    state, facts = seen.state, seen.state.facts
    if state.decision.needs_human or state.stall is not None or _has_failed(seen):
        return "bad"
    if seen.holds:
        return "bad" if facts.is_wanted else "warn"
    if facts.running is None and not facts.is_wanted:
        return "good" if facts.mode == "incremental" else "off"
    if state.decision.action in ("wait", "unseen") or _waits_for_help(seen) or is_slow(seen):
        return "warn"
    return "good"


def state_of(seen: Seen) -> str:
    """In one word or two."""
    state, facts = seen.state, seen.state.facts
    if seen.holds and facts.running is None:
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
    """Of a pipeline without a driver that is in no trouble."""
    facts = seen.state.facts
    if _has_failed(seen):
        return "failed"
    if facts.mode == "incremental":
        return "by schedule" if facts.desired is None else facts.desired.state
    if facts.is_wanted:
        return "to be started"
    return "stopped" if facts.desired is None else facts.desired.state


def reason_of(seen: Seen) -> str:
    """Why, for a person."""
    state = seen.state
    if seen.holds and state.facts.running is None:
        return "; ".join(f"{hold.why} (by {hold.by})" for hold in seen.holds)
    if state.decision.needs_human:
        return state.decision.reason
    if state.stall is not None:
        return state.stall.words(state.facts.now)
    error = None if state.status is None else state.status.error
    if error is not None and (_waits_for_help(seen) or _has_failed(seen)):
        return f"{error.get('id', '')} {error.get('problem', '')}".strip()
    if is_slow(seen):
        return "a batch takes longer than its trigger"
    is_as_planned = state.decision.reason == "runs" or _resting(seen) == "by schedule"
    return "" if is_as_planned else state.decision.reason


def runbook_of(seen: Seen) -> str:
    """The page for what is wrong."""
    if seen.holds and seen.state.facts.running is None:
        return "hold"
    if seen.state.decision.runbook:
        return seen.state.decision.runbook
    return "" if seen.state.stall is None else seen.state.stall.runbook


def is_slow(seen: Seen) -> bool:
    """Whether a stream's newest batch took clearly longer than its trigger."""
    status, trigger = seen.state.status, seen.state.facts.trigger
    if status is None or status.batch_milliseconds is None or seen.state.facts.mode != "stream":
        return False
    return timedelta(milliseconds=status.batch_milliseconds) > max(trigger, timedelta(seconds=1)) * SLOW_SHARE


def _waits_for_help(seen: Seen) -> bool:
    status = seen.state.status
    return seen.state.facts.running is not None and status is not None and status.error is not None


def _has_failed(seen: Seen) -> bool:
    """Of an incremental pipeline: its last run has, and Airflow may have given up."""
    facts, status = seen.state.facts, seen.state.status
    is_bounded = facts.mode == "incremental" and facts.running is None
    return is_bounded and status is not None and status.state == "failed"


def _loss(seen: Seen) -> tuple[float | None, str]:
    """Seconds until unread records may be gone, and how that is known."""
    status, spec, now = seen.state.status, seen.spec, seen.state.facts.now
    if status is None:
        return None, ""
    left = time_to_data_loss(status, now)
    if left is not None:
        return max(0.0, left), "since all was read, by what the source keeps"
    reads_kafka = spec is not None and any(stream.source.is_kafka for stream in spec.streams.values())
    if not reads_kafka or status.progressed_at is None:
        return None, ""
    left = (status.progressed_at + ASSUMED_BROKER_RETENTION - now).total_seconds()
    keeps = format_duration(ASSUMED_BROKER_RETENTION)
    return max(0.0, left), f"since the last progress; the driver has not told what is kept: {keeps} assumed"


def _hold(hold: Hold) -> HoldSeen:
    return HoldSeen(id=hold.id, by=hold.by, since=hold.at, why=hold.why, fix=hold.to_do)


def newest_at(seen: Seen) -> datetime | None:
    """When something last flowed through a pipeline."""
    status = seen.state.status
    return None if status is None else status.progressed_at or status.batch_committed_at
