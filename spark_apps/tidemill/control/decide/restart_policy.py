"""Policy for restarting an ended driver: the class of its end decides, then budget and backoff.

exit 0, drained            at once
exit 69, never created     with backoff, without limit, because the source, storage or cluster will recover
exit 70, killed, others    with backoff, within a budget; held if no driver ever makes progress
exit 66 after a hold       at once when the hold is gone
exit 64, 65, 66            not until the declaration or the request changes, because a restart would fail
again
exit 75                    not while a newer driver elsewhere sends heartbeats
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
    """Return the class of an end. `forced` follows a stop request, so it is never a crash."""
    if ending.result in ("clean", "forced"):
        return "clean"
    if ending.result == "not_made":
        return "not_made"
    return _CLASS_OF_EXIT.get(ending.exit_code, "crash")


@dataclass(frozen=True)
class Judgement:
    """Decision about a start: now, at `until`, or only after an operator has acted."""

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
    """Decide about a restart after bad endings; `endings` are those that count, oldest first, not empty."""
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
    """Return the wait after consecutive bad endings: exponential, with jitter.

    The jitter shortens the delay by up to half. It is a hash of name and count, so the same facts always give
    the same wait. Pipelines that lost one broker at the same time therefore restart over half the delay. Once
    the delay is 5 minutes, they restart over 2.5 minutes, which is three visits of a minute each. Waits below
    a minute end with the same visit, whose own limit spreads the starts (control/decide/all_streams.py: 16 at
    once).
    """
    hashed = hashlib.sha256(f"{pipeline} {count}".encode()).digest()
    share = int.from_bytes(hashed[:4]) / 2**32
    return policy.delay(count) * (1 - share / 2)


def budget_of(endings: Sequence[Ending], now: datetime, policy: RestartPolicy) -> RestartBudget:
    """Return the used budget, from the endings that count, oldest first."""
    return RestartBudget(len(_recent(_crashes(_since_healthy(endings, policy)), now, policy)), policy.budget)


def _crashes(streak: Sequence[Ending]) -> list[Ending]:
    return [ending for ending in streak if class_of(ending) == "crash"]


def _recent(crashes: Sequence[Ending], now: datetime, policy: RestartPolicy) -> list[Ending]:
    return [crash for crash in crashes if now - crash.ended_at < policy.window]


def _since_healthy(endings: Sequence[Ending], policy: RestartPolicy) -> list[Ending]:
    """Return the latest consecutive bad endings; a long healthy run that ended badly begins the series."""
    streak: list[Ending] = []
    for ending in reversed(endings):
        if class_of(ending) == "clean":
            break
        streak.append(ending)
        if ending.progressed and ending.lived >= policy.healthy_after:
            break
    return streak[::-1]
