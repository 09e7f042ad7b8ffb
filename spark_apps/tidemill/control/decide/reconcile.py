"""Decision about a stream from its desired and actual state: facts in, one decision out. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.hung import NO_PROGRESS_PAGE, why_hung
from tidemill.control.decide.restart_policy import class_of, judge_crashes
from tidemill.control.decide.rollback import Rollback, why_given_up
from tidemill.control.decide.suspension import words_of
from tidemill.control.runtime import StartedDriver
from tidemill.spec.restarts import RestartPolicy

# Maximum silence of a driver elsewhere that has fenced off the local one, before it counts as dead. Above the
# minimum silence after which a driver's own probe has it killed (15 minutes). A start that is too early loses
# no row, because the new driver fences off the other one, which ends before its next batch.
LONGEST_SILENCE_OF_NEWER = timedelta(minutes=20)

# Reason for leaving a stream that is in its desired state.
RUNS = "runs"

# Runbook page about streams that were rolled back.
ROLLBACK_PAGE = "rollback"

Action = Literal[
    "start", "stop", "kill", "leave", "plan", "wait", "return", "hold", "refused", "failed", "unseen"
]


@dataclass(frozen=True)
class Decision:
    """Decision about a pipeline, with the reason.

    - `plan`: Spark determines which state a changed definition would keep, before the old one stops.
    - `return`: the version is given up, and the previous one takes its place.
    - `hold`: restarts are used up.
    - `refused`: the declaration is invalid, or the driver refused to run.
    - `failed`: the decision could not be made or carried out.
    - `unseen`: storage or API server did not answer; the next visit tries again.
    - `replaces`: the driver will be replaced by one of a new version when it is its turn.
    - `alarm`: an operator should know, although the action is tried again.
    - `given_up`: the reason why its version was given up.
    """

    action: Action
    reason: str
    until: datetime | None = None
    runbook: str = ""
    alarm: bool = False
    replaces: bool = False
    given_up: str = ""

    @property
    def needs_human(self) -> bool:
        """Return True if an operator should know: the pipeline is down or has an error."""
        return self.alarm or self.action in ("return", "hold", "refused", "failed")


@dataclass(frozen=True)
class Reconciler:
    """Makes decisions by one policy."""

    policy: RestartPolicy

    def decide(self, facts: Facts) -> Decision:
        """Return the decision for now."""
        decision = self._decide(facts)
        if facts.rollback is not None:
            return _of_version_before(decision, facts.rollback)
        why = why_given_up(facts, decision)
        if not why:
            return decision
        reason = f"its new version made no batch, and is given up for the one before: {why}"
        return Decision("return", reason, runbook=ROLLBACK_PAGE, given_up=why)

    def _decide(self, facts: Facts) -> Decision:
        if facts.running is not None:
            return _unless_stuck(facts.running, self._about_running(facts, facts.running))
        if facts.problem is not None and (facts.is_wanted or not facts.by_hand):
            return Decision("refused", str(facts.problem), runbook=facts.problem.runbook)
        if facts.unfinished_run is not None:
            last = facts.unfinished_run
            return Decision("leave", f"its last run did not finish: {last.cause}", runbook=last.runbook)
        if not facts.is_wanted:
            return Decision("leave", _why_not_wanted(facts))
        return self._about_ended(facts)

    def _about_running(self, facts: Facts, driver: StartedDriver) -> Decision:
        if driver.is_overdue(facts.now, facts.grace_period):
            reason = f"it did not drain within {facts.grace_period.total_seconds():.0f} s"
            return Decision("kill", reason, runbook="drain-overdue")
        if driver.drain_requested_at is not None:
            return Decision("leave", "draining")
        if facts.mode is None:
            reason = "it runs, but its file is gone: restore the file, or stop it"
            return Decision("refused", reason, runbook="stream-does-not-start")
        if facts.problem is not None:
            return Decision("refused", f"it runs as declared before; now: {facts.problem}")
        hung = why_hung(driver, facts.trigger if driver.mode == "stream" else None)
        if hung:
            return Decision("stop", f"{hung}: it is asked to end, then killed", runbook=NO_PROGRESS_PAGE)
        if driver.mode == "incremental":
            return Decision("leave", f"incremental run {driver.run_id} is at work")
        if not facts.is_wanted:
            return Decision("stop", _why_not_wanted(facts))
        if facts.rollback is not None and driver.digest != facts.digest:
            return Decision("stop", "it drains, and the next visit starts another version")
        if driver.digest != facts.digest:
            return _about_changed(facts)
        return Decision("leave", RUNS)

    def _about_ended(self, facts: Facts) -> Decision:
        counted = facts.counted_endings
        if not counted:
            return Decision("start", "desired, and not running")
        last = counted[-1]
        match class_of(last):
            case "clean":
                return Decision("start", f"desired, and the last driver ended {last.result}")
            case "refused" if last.was_held:
                return _about_held(facts)
            case "refused":
                return Decision("refused", _words(last), runbook=last.runbook or "stream-does-not-start")
            case "fenced":
                return _about_fenced(last, facts)
        verdict = judge_crashes(facts.pipeline, counted, facts.now, self.policy)
        if class_of(last) == "not_made":
            again: Action = "start" if verdict.may_start else "wait"
            page = last.runbook or "stream-does-not-start"
            return Decision(again, verdict.reason, verdict.until, page, alarm=True)
        if verdict.may_start:
            return Decision("start", verdict.reason)
        action: Action = "hold" if verdict.held else "wait"
        return Decision(action, verdict.reason, verdict.until, verdict.runbook)


def _about_held(facts: Facts) -> Decision:
    """Return the decision about a held stream; a hold whose operation is dead needs an operator.

    Other holds are ended by their operation or by an operator.
    """
    if not facts.holds:
        return Decision("start", "the hold that forbade the last start is gone")
    reason = "; ".join(f"{name}: {value}" for name, value in facts.holds[0].facts.items())
    lost = any(hold.alive is not None and hold.alive.is_silent(facts.now) for hold in facts.holds)
    return Decision("wait", f"it starts once the hold is gone: {reason}", runbook="hold", alarm=lost)


def _about_fenced(last: Ending, facts: Facts) -> Decision:
    """Leave the pipeline to the newer driver that fenced off the last one, unless it is silent."""
    receipt, status = facts.newest_receipt, facts.newest_status
    if receipt is not None and _is_newer(receipt, last):
        return Decision("start", "the newer driver that fenced off the last one has ended")
    heard_at = status.updated_at if status is not None and _is_newer(status, last) else last.ended_at
    if facts.now - heard_at > LONGEST_SILENCE_OF_NEWER:
        silent = f"silent since {heard_at.isoformat(timespec='seconds')}"
        return Decision("start", f"the newer driver that fenced off the last one is {silent}")
    return Decision("leave", "a newer driver fenced off the last one; start it to take over here")


def _is_newer(document: Receipt | Status, last: Ending) -> bool:
    return (document.epoch or 0) > (last.epoch or 0)


def _unless_stuck(driver: StartedDriver, decision: Decision) -> Decision:
    """Return `failed` for a stuck driver if the decision would not free it.

    A drain or the start of a new definition may still free it, because a pod that never ran ends at once.
    """
    if driver.stuck and decision.action in ("leave", "kill"):
        return Decision("failed", driver.stuck, runbook="kubernetes-object-refused")
    return decision


def _of_version_before(decision: Decision, rollback: Rollback) -> Decision:
    """Return the decision with a note that the previous version runs after a rollback."""
    if decision.action == "leave" and decision.reason == RUNS:
        return Decision("refused", f"it runs {rollback.words}", runbook=ROLLBACK_PAGE)
    return replace(decision, reason=f"{decision.reason}; this is {rollback.words}")


def _about_changed(facts: Facts) -> Decision:
    if facts.on_change == "leave":
        return Decision("leave", "runs an older definition; restart it to apply the new one")
    if facts.objection is not None:
        reason = f"it runs as defined before, because the new definition is refused: {facts.objection}"
        return Decision("refused", reason, runbook=facts.objection.runbook)
    if not facts.is_planned:
        reason = "its version changed: Spark plans the new one before the old one stops"
        return Decision("plan", reason)
    reason = "its version changed: it drains, and the next visit starts the new one"
    return Decision("stop", reason, replaces=True)


def _why_not_wanted(facts: Facts) -> str:
    if facts.mode != "stream":
        return f"declared {facts.mode}, not stream"
    if facts.desired is None:
        return str(facts.problem or f"for trying out; to start it: tidemill start {facts.pipeline}")
    if facts.desired.state == "suspended":
        return words_of(facts.desired)
    reason = f": {facts.desired.reason}" if facts.desired.reason else ""
    return f"stopped by {facts.desired.by}{reason}"


def _words(ending: Ending) -> str:
    error = ending.error or {}
    fix = f" To fix: {error['fix']}" if error.get("fix") else ""
    return ending.cause + fix
