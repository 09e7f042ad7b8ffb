"""Desired against actual state of a stream: facts in, one decision out. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.receipts import Receipt
from tidemill.control.endings import Ending
from tidemill.control.restart_policy import RestartPolicy, class_of, judge_crashes
from tidemill.control.runtime import StartedDriver
from tidemill.errors import TidemillError

Action = Literal["start", "stop", "kill", "leave", "wait", "hold", "refused", "failed"]


@dataclass(frozen=True)
class Facts:
    """What is known of one pipeline at one moment.

    Args:
        pipeline: Its name.
        mode: Mode that conf declares; None if its file is gone.
        digest: Digest of the definition; None without one.
        problem: Why the declaration cannot be used.
        grace_period: How long a driver may drain before it is killed.
        on_change: What the environment wants done about a running stream whose definition changed.
        objection: Why the changed definition could not go on from the checkpoint; None if it can, or if
            nobody needs to know.
        desired: What a person asked for; None if nobody did.
        running: The driver in the main slot.
        ended: The newest driver of the main slot, if it runs no more.
        endings: How its drivers ended, oldest first.
        newest_receipt: The newest receipt of any driver, also of another machine's.
        now: When this was seen.
    """

    pipeline: str
    now: datetime
    mode: Literal["stream", "incremental"] | None = "stream"
    digest: str | None = None
    problem: TidemillError | None = None
    grace_period: timedelta = timedelta(seconds=120)
    on_change: Literal["leave", "restart"] = "leave"
    objection: TidemillError | None = None
    desired: Desired | None = None
    running: StartedDriver | None = None
    ended: StartedDriver | None = None
    endings: tuple[Ending, ...] = ()
    newest_receipt: Receipt | None = None


@dataclass(frozen=True)
class Decision:
    """What to do about a pipeline, and why.

    `hold`: restarts are used up. `refused`: the declaration or the driver said no. `failed`: the decision
    could not be made or carried out.
    """

    action: Action
    reason: str
    until: datetime | None = None
    runbook: str = ""

    @property
    def needs_human(self) -> bool:
        """Whether the pipeline stays down, or wrong, until somebody acts."""
        return self.action in ("hold", "refused", "failed")


@dataclass(frozen=True)
class Reconciler:
    """Decides by one policy."""

    policy: RestartPolicy = field(default_factory=RestartPolicy)

    def decide(self, facts: Facts) -> Decision:
        """What to do now."""
        if facts.running is not None:
            return self._about_running(facts, facts.running)
        if facts.problem is not None:
            return Decision("refused", str(facts.problem), runbook=facts.problem.runbook)
        if not _is_wanted(facts):
            return Decision("leave", _why_not_wanted(facts))
        return self._about_ended(facts)

    def _about_running(self, facts: Facts, driver: StartedDriver) -> Decision:
        if driver.drain_requested_at is not None:
            if facts.now - driver.drain_requested_at > facts.grace_period:
                reason = f"it did not drain within {facts.grace_period.seconds} s"
                return Decision("kill", reason, runbook="drain-overdue")
            return Decision("leave", "draining")
        if facts.mode is None:
            reason = "it runs, but its file is gone: restore the file, or stop it"
            return Decision("refused", reason, runbook="stream-does-not-start")
        if facts.problem is not None:
            return Decision("refused", f"it runs as declared before; now: {facts.problem}")
        if driver.mode == "incremental":
            return Decision("leave", f"incremental run {driver.run_id} is at work")
        if not _is_wanted(facts):
            return Decision("stop", _why_not_wanted(facts))
        if driver.digest != facts.digest:
            return _about_changed(facts)
        return Decision("leave", "runs")

    def _about_ended(self, facts: Facts) -> Decision:
        counted = [ending for ending in facts.endings if _counts(ending, facts)]
        if not counted:
            return Decision("start", "desired, and not running")
        last = counted[-1]
        match class_of(last):
            case "clean":
                return Decision("start", f"desired, and the last driver ended {last.result}")
            case "refused":
                return Decision("refused", _words(last), runbook=_runbook(last) or "stream-does-not-start")
            case "fenced":
                return self._about_fenced(last, facts.newest_receipt)
        verdict = judge_crashes(counted, facts.now, self.policy)
        if verdict.may_start:
            return Decision("start", verdict.reason)
        action: Action = "hold" if verdict.held else "wait"
        return Decision(action, verdict.reason, verdict.until, verdict.runbook)

    def _about_fenced(self, last: Ending, newest: Receipt | None) -> Decision:
        ended = newest is not None and (newest.epoch or 0) > (last.epoch or 0)
        if ended:
            return Decision("start", "the newer driver that fenced off the last one has ended")
        return Decision("leave", "a newer driver fenced off the last one; start it to take over here")


def _about_changed(facts: Facts) -> Decision:
    if facts.on_change == "leave":
        return Decision("leave", "runs an older definition; restart it to apply the new one")
    if facts.objection is not None:
        reason = f"it runs as defined before, because the new definition is refused: {facts.objection}"
        return Decision("refused", reason, runbook=facts.objection.runbook)
    return Decision("stop", "its definition changed: it drains, and the next visit starts the new one")


def _is_wanted(facts: Facts) -> bool:
    return facts.mode == "stream" and (facts.desired is None or facts.desired.state == "running")


def _why_not_wanted(facts: Facts) -> str:
    if facts.mode != "stream":
        return f"declared {facts.mode}, not stream"
    assert facts.desired is not None  # noqa: S101  # a stream without a wish is wanted
    reason = f": {facts.desired.reason}" if facts.desired.reason else ""
    return f"stopped by {facts.desired.by}{reason}"


def _counts(ending: Ending, facts: Facts) -> bool:
    """An end counts until the declaration changes or a person asks anew: both deserve a fresh try."""
    asked_later = facts.desired is not None and facts.desired.at > ending.ended_at
    return ending.digest == facts.digest and not asked_later


def _words(ending: Ending) -> str:
    error = ending.error or {}
    fix = f" To fix: {error['fix']}" if error.get("fix") else ""
    return ending.cause + fix


def _runbook(ending: Ending) -> str:
    return str((ending.error or {}).get("runbook") or "")
