"""Proofs that a request was carried out; a running process alone proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from tidemill.checkpoint.status import Status, read_status
from tidemill.control.ask.stop_note import read_stop_note
from tidemill.control.decide.endings import Ending, found_nothing_to_read, is_status_of
from tidemill.control.decide.hung import why_hung
from tidemill.control.decide.restart_policy import class_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver
from tidemill.errors import SpecError
from tidemill.ledger.read import read_ledger

# Commits of a table to search for a run's commit. The search runs seconds after the first batch, so the
# commit is among the newest; maintenance may have added a few.
SEARCHED_COMMITS = 20


@dataclass(frozen=True)
class Proof:
    """State of a request.

    `overdue`: a drain will not end by itself, and its driver was not killed yet. `evidence` is plain data,
    for XCom and `--json`.
    """

    state: Literal["pending", "done", "failed", "overdue"]
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def prove_progress(plane: ControlPlane, pipeline: str, started_after: datetime | None) -> Proof:
    """Return the proof that the running driver has made progress.

    The proof is a batch committed by this driver, or its status `waiting` if the source has nothing to read.
    With `started_after`, a driver that was requested before that time does not count (restart), even if the
    runtime starts it again.
    """
    start = plane.runtime.last_start(pipeline)
    if start is None or (started_after is not None and start.claimed_at < started_after):
        return Proof("pending", "no driver was started yet")
    if not start.alive:
        ending = plane.last_ending(pipeline)
        return _ended_before_proof(start, ending) if ending else Proof("pending", "ending")
    status = read_status(plane.store, plane.layout, pipeline)
    if status is None or not is_status_of(status, start):
        return Proof("pending", f"driver {start.run_id} ({start.process}) is starting")
    return _judge_status(plane, start, status)


def prove_part_ended(plane: ControlPlane, pipeline: str) -> Proof:
    """Return the proof that no Spark job of an operation runs; a stuck one does not count.

    The next step checks the result.
    """
    part = plane.running(pipeline, "verb")
    if part is None or part.stuck:
        return Proof("done", "no part is at work")
    told = f"Spark is at work ({part.process}, {part.run_id}); the old version runs on"
    # A long job may belong to another request.
    return Proof("pending", told, {"retry": True})


def prove_stopped(
    plane: ControlPlane,
    pipeline: str,
    now: datetime,
    *,
    final: bool = True,
    killed_drain: datetime | None = None,
) -> Proof:
    """Return the proof that no driver runs any more, and how the last one ended.

    If this is an intermediate step (not `final`), a batch may have been cut off, and a driver without a drain
    request may run, because something else, such as a reconciliation, has started it since. A killed driver
    (`killed_drain`) counts as running until the runtime reports its end.
    """
    start = plane.runtime.last_start(pipeline)
    if start is None:
        return Proof("done", "no driver ever ran here")
    if start.alive:
        if start.drain_requested_at is None and not final:
            return Proof("done", f"{start.process} was started meanwhile")
        return _about_draining(start, now, plane.environment.spec.grace_period, killed_drain)
    ending = plane.last_ending(pipeline)
    if ending is None:
        return Proof("pending", "a driver was started meanwhile")
    evidence = {"run_id": ending.run_id, "result": ending.result, "ended_at": ending.ended_at.isoformat()}
    cut_off = _cut_off(start, ending, killed_drain) if final else ""
    if cut_off:
        return Proof("failed", cut_off, evidence)
    return Proof("done", f"stopped, {ending.result}: {ending.cause}", evidence)


def prove_finished(plane: ControlPlane, pipeline: str, slot: Slot, started_at: datetime | None) -> Proof:
    """Return the proof that the run has finished: its receipt, never the end of the process alone."""
    start = plane.runtime.last_start(pipeline, slot)
    if start is None or start.started_at != started_at:
        return Proof("failed", "another run has taken the slot; nothing is known of this one")
    ending = plane.last_ending(pipeline, slot)
    if ending is None:
        return _about_working(start)
    evidence = {
        "run_id": ending.run_id,
        "result": ending.result,
        "exit_code": ending.exit_code,
        "error": ending.error,
    }
    if ending.is_finished:
        return Proof("done", "finished", evidence)
    note = read_stop_note(plane.store, plane.layout, pipeline, ending.run_id)
    may_help = _is_worth_a_retry(ending)
    # Includes a run that was stopped before it had begun, or killed because it did not drain.
    if note is not None and (ending.stopped_early or may_help):
        return Proof("failed", f"{note.words}. Log: {start.log}", {**evidence, "retry": False})
    return Proof("failed", f"{ending.cause}. Log: {start.log}", {**evidence, "retry": may_help})


def _about_working(start: StartedDriver) -> Proof:
    """Return the proof of a running driver; failed if it is stuck, because a retry may help."""
    reason = start.stuck or why_hung(start, None)
    if reason:
        return Proof("failed", reason, {"run_id": start.run_id, "stuck": True, "retry": True})
    return Proof("pending", f"{start.process} is at work")


def _about_draining(
    start: StartedDriver, now: datetime, grace: timedelta, killed_drain: datetime | None
) -> Proof:
    if start.drain_requested_at is None:
        return Proof("pending", f"{start.process} runs")
    if not start.is_overdue(now, grace):
        return Proof("pending", f"{start.process} is draining")
    late = f"{start.process} did not drain within {grace.total_seconds():.0f} s"
    if start.drain_requested_at == killed_drain:
        return Proof("pending", f"{late}; it was killed, and is still there")
    return Proof("overdue", late)


def _cut_off(start: StartedDriver, ending: Ending, killed_drain: datetime | None) -> str:
    """Return the message for a driver that was asked to stop and left a batch unfinished; empty otherwise."""
    if ending.result == "forced":
        return "the driver did not finish its batch in time; the next start repeats it"
    if ending.result != "killed" or start.drain_requested_at is None:
        return ""
    # A pod that never ran leaves no receipt either. Before it claims its epoch, a driver writes nothing.
    if ending.epoch is None and start.drain_requested_at != killed_drain:
        return ""
    return f"the driver did not drain, it was {ending.cause}; the next start repeats its batch"


def _judge_status(plane: ControlPlane, start: StartedDriver, status: Status) -> Proof:
    evidence = {
        "run_id": start.run_id,
        "epoch": status.epoch,
        "batch_id": status.batch_id,
        "process": start.process,
    }
    if status.batch_committed_at is not None and status.batch_committed_at >= start.started_at:
        if status.trigger:
            noted = f"note {status.batch_id} is in the checkpoint; trigger {status.trigger} writes no ledger"
            return Proof("done", noted, {**evidence, "trigger": status.trigger})
        commit = _commit_of(plane, start)
        if commit:
            return Proof("done", f"batch {commit['batch_id']} is in the ledger", {**evidence, **commit})
        # A batch without rows for a table (an open window, a Kafka sink) makes no commit.
        return Proof("done", f"batch {status.batch_id} is committed; no table had rows yet", evidence)
    if found_nothing_to_read(status):
        return Proof("done", "the driver waits: its source has nothing to read", evidence)
    error = f", {status.error.get('id')} {status.error.get('problem')}" if status.error else ""
    return Proof("pending", f"{status.state}, no batch is committed yet{error}", evidence)


def _commit_of(plane: ControlPlane, start: StartedDriver) -> dict[str, Any]:
    try:
        spec = plane.environment.project.load_pipeline(start.pipeline)
    except SpecError:
        return {}
    for sink in spec.delta_sinks:
        for commit in read_ledger(plane.layout.table(sink.table), SEARCHED_COMMITS):
            if commit.entry is not None and commit.entry.run_id == start.run_id:
                return {"table": sink.table, "version": commit.version, "batch_id": commit.entry.batch_id}
    return {}


def _ended_before_proof(start: StartedDriver, ending: Ending) -> Proof:
    evidence = {
        "run_id": start.run_id,
        "result": ending.result,
        "exit_code": ending.exit_code,
        "error": ending.error,
    }
    return Proof(
        "failed", f"the driver ended before its first proof: {ending.cause}. Log: {start.log}", evidence
    )


def _is_worth_a_retry(ending: Ending) -> bool:
    # A clean end of an unfinished run means that it was stopped, by a drained node, an eviction or a user.
    return class_of(ending) in ("unavailable", "crash", "clean", "not_made")
