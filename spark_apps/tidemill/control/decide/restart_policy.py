"""When a driver that ended is started again: the class of its end decides, then budget and backoff.

exit 0, drained            at once
exit 69, never made        with backoff, for ever: the source, the storage or the cluster will come right
exit 70, killed, others    with backoff, within a budget; held if no driver ever progresses
exit 66, for a hold        at once when the hold is gone
exit 64, 65, 66            refused until the declaration or the wish changes: a restart would say the same
exit 75                    left while a newer driver is heard of elsewhere
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from tidemill.control.decide.endings import Ending
from tidemill.errors import DataError, FencedError, GateRefusedError, SpecError, UnavailableError
from tidemill.spec.restarts import RestartPolicy
from tidemill.spec.units import format_duration

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
class Judgement:
    """Whether a driver may be started: now, at `until`, or not before a human acted."""

    may_start: bool
    reason: str
    until: datetime | None = None
    held: bool = False
    runbook: str = ""


@dataclass(frozen=True)
class RestartBudget:
    """Crashes within the policy's window, and the number at which the stream is held."""

    crashes: int
    limit: int


def judge_crashes(
    pipeline: str, endings: Sequence[Ending], now: datetime, policy: RestartPolicy
) -> Judgement:
    """Judge a restart after bad ends; `endings` are those that still count, oldest first, not empty."""
    streak = _since_healthy(endings, policy)
    crashes = _crashes(streak)
    fruitless = list(takewhile(lambda crash: not crash.progressed, reversed(crashes)))
    if len(fruitless) >= policy.fruitless_limit:
        return Judgement(
            may_start=False,
            held=True,
            reason=f"{len(fruitless)} crashes in a row before the first batch; last: {crashes[-1].cause}",
            runbook="no-progress-over-restarts",
        )
    recent = _recent(crashes, now, policy)
    if len(recent) >= policy.budget:
        return Judgement(
            may_start=False,
            held=True,
            until=recent[-policy.budget].ended_at + policy.window,
            reason=f"{len(recent)} crashes within {format_duration(policy.window)}; last: {recent[-1].cause}",
            runbook="restart-budget-spent",
        )
    count, last = len(streak), streak[-1]
    until = last.ended_at + backoff(pipeline, count, policy)
    reason = f"restart {count} after: {last.cause}"
    return Judgement(may_start=now >= until, until=None if now >= until else until, reason=reason)


def backoff(pipeline: str, count: int, policy: RestartPolicy) -> timedelta:
    """The wait after a number of bad ends in a row: exponential, with jitter.

    The jitter cuts the delay by up to half, evenly, by a hash of name and number: the same facts always
    give the same wait. So pipelines that lost one broker at the same moment come back over half the delay:
    over 2.5 minutes once it is 5, which is three visits of a minute each. Waits below a minute end with the
    same visit, whose starts are spread by its own limit (control/decide/all_streams.py: 16 at once).
    """
    hashed = hashlib.sha256(f"{pipeline} {count}".encode()).digest()
    share = int.from_bytes(hashed[:4]) / 2**32
    return policy.delay(count) * (1 - share / 2)


def budget_of(endings: Sequence[Ending], now: datetime, policy: RestartPolicy) -> RestartBudget:
    """How much of the budget is spent, by ends that still count, oldest first."""
    return RestartBudget(len(_recent(_crashes(_since_healthy(endings, policy)), now, policy)), policy.budget)


def _crashes(streak: Sequence[Ending]) -> list[Ending]:
    return [ending for ending in streak if class_of(ending) == "crash"]


def _recent(crashes: Sequence[Ending], now: datetime, policy: RestartPolicy) -> list[Ending]:
    return [crash for crash in crashes if now - crash.ended_at < policy.window]


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
