"""When a driver that ended is started again: the class of its end decides, then budget and backoff.

exit 0, drained            at once
exit 69, never made        with backoff, for ever: the source, the storage or the cluster will come right
exit 70, killed, others    with backoff, within a budget; held if no driver ever progresses
exit 66, for a hold        at once when the hold is gone
exit 64, 65, 66            refused until the declaration or the wish changes: a restart would say the same
exit 75                    left while a newer driver is heard of elsewhere
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from tidemill.control.endings import Ending
from tidemill.errors import DataError, FencedError, GateRefusedError, SpecError, UnavailableError

EndingClass = Literal["clean", "unavailable", "crash", "refused", "fenced", "not_made"]

_CLASS_OF_EXIT: dict[int | None, EndingClass] = {
    0: "clean",
    SpecError.exit_code: "refused",
    DataError.exit_code: "refused",
    GateRefusedError.exit_code: "refused",
    UnavailableError.exit_code: "unavailable",
    FencedError.exit_code: "fenced",
}


def class_of(ending: Ending) -> EndingClass:
    """What kind of end it was. `forced` is an answered stop: whatever its exit code, no crash."""
    if ending.result in ("clean", "forced"):
        return "clean"
    if ending.result == "not_made":
        return "not_made"
    return _CLASS_OF_EXIT.get(ending.exit_code, "crash")


@dataclass(frozen=True)
class RestartPolicy:
    """The bounds of restarting.

    Args:
        first_delay: Wait after the first bad end; doubles with each further one.
        longest_delay: Wait at most. Must stay well below the source's retention.
        window: Crashes older than this are forgotten.
        budget: Crashes within the window before starts pause until the oldest leaves the window.
        healthy_after: A driver that lived this long and progressed clears what was before.
        fruitless_limit: Crashes in a row without one committed batch before a human must look: such a
            driver never lives long enough for its first batch, and no restart changes that.
    """

    first_delay: timedelta = timedelta(seconds=10)
    longest_delay: timedelta = timedelta(minutes=5)
    window: timedelta = timedelta(hours=1)
    budget: int = 6
    healthy_after: timedelta = timedelta(minutes=10)
    fruitless_limit: int = 4


@dataclass(frozen=True)
class Verdict:
    """Whether a driver may be started: now, at `until`, or not before a human acted."""

    may_start: bool
    reason: str
    until: datetime | None = None
    held: bool = False
    runbook: str = ""


def judge_crashes(endings: Sequence[Ending], now: datetime, policy: RestartPolicy) -> Verdict:
    """Judge a restart after bad ends; `endings` are those that still count, oldest first, not empty."""
    streak = _since_healthy(endings, policy)
    crashes = [ending for ending in streak if class_of(ending) == "crash"]
    fruitless = list(takewhile(lambda crash: not crash.progressed, reversed(crashes)))
    if len(fruitless) >= policy.fruitless_limit:
        return Verdict(
            may_start=False,
            held=True,
            reason=f"{len(fruitless)} crashes in a row before the first batch; last: {crashes[-1].cause}",
            runbook="no-progress-over-restarts",
        )
    recent = [crash for crash in crashes if now - crash.ended_at < policy.window]
    if len(recent) >= policy.budget:
        return Verdict(
            may_start=False,
            held=True,
            until=recent[-policy.budget].ended_at + policy.window,
            reason=f"{len(recent)} crashes within {_minutes(policy.window)}; last: {recent[-1].cause}",
            runbook="restart-budget-spent",
        )
    return _after_backoff(streak, now, policy)


def _after_backoff(streak: Sequence[Ending], now: datetime, policy: RestartPolicy) -> Verdict:
    last = streak[-1]
    # 2**20 first delays are 121 days: more doublings say nothing and overflow timedelta in the end.
    delay = min(policy.first_delay * 2 ** min(len(streak) - 1, 20), policy.longest_delay)
    until = last.ended_at + delay
    reason = f"restart {len(streak)} after: {last.cause}"
    return Verdict(may_start=now >= until, until=None if now >= until else until, reason=reason)


def _since_healthy(endings: Sequence[Ending], policy: RestartPolicy) -> list[Ending]:
    """The bad ends in a row up to now; a healthy life that ended badly is the first of a new row."""
    streak: list[Ending] = []
    for ending in reversed(endings):
        if class_of(ending) == "clean":
            break
        streak.append(ending)
        if ending.progressed and ending.lived >= policy.healthy_after:
            break
    return streak[::-1]


def _minutes(span: timedelta) -> str:
    return f"{span // timedelta(minutes=1)} minutes"
