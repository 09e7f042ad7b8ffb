"""Suspensions: a stream is drained, and is started again at a set time or when it is resumed.

A suspension is a request like start and stop, so the last request wins: a start ends it, and a stop makes it
permanent. But neither `suspend` nor `resume` undoes a stop, because a suspended stream starts again by
itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from tidemill.checkpoint.desired import Desired
from tidemill.errors import UsageError


def parse_until(text: str | None) -> datetime | None:
    """Return the end of a suspension from its text, in UTC unless it has an offset; None for empty text.

    Raises:
        UsageError: TIDE-CTRL-020.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _unusable("This is not a moment.", until=text[:40]) from error


def check_until(verb: str, until: datetime | None, now: datetime) -> None:
    """Raise if `until` is given for another operation, or has passed.

    A request that is repeated after its end must not drain the driver that was started since.

    Raises:
        UsageError: TIDE-CTRL-020.
    """
    if until is None:
        return
    if verb != "suspend":
        raise _unusable("Only a suspension has an end.", until=until, action=verb)
    if until <= now:
        raise _unusable("This moment has passed.", until=until, now=now)


def check_suspendable(
    pipeline: str, verb: Literal["suspend", "resume"], standing: Desired | None, *, by_hand: bool
) -> None:
    """Raise if the stream is stopped.

    Raises:
        UsageError: TIDE-CTRL-021.
    """
    never_started = standing is None and by_hand
    if not never_started and (standing is None or standing.state != "stopped"):
        return
    facts = {} if standing is None else {"by": standing.by, "reason": standing.reason}
    raise UsageError(
        "TIDE-CTRL-021",
        f"This stream is stopped, and to {verb} it would start it"
        + (" when the suspension ends." if verb == "suspend" else "."),
        facts={"pipeline": pipeline, "standing": "never started" if standing is None else "stopped", **facts},
        fix=f"leave it stopped; or start it first: tidemill start {pipeline}",
    )


def words_of(suspended: Desired) -> str:
    """Return a suspension in readable form: end, requester and reason."""
    reason = f": {suspended.reason}" if suspended.reason else ""
    return f"suspended until {end_of(suspended)} by {suspended.by}{reason}"


def wish_of(asked: Desired, now: datetime) -> str:
    """Return the request with its requester: `running (ana)`, `suspended until it is resumed (ana)`."""
    if asked.returned_at(now) is not None:
        return f"running since {end_of(asked)} ({asked.by})"
    until = f" until {end_of(asked)}" if asked.state == "suspended" else ""
    return f"{asked.state}{until} ({asked.by})"


def end_of(suspended: Desired) -> str:
    """Return the end of a suspension."""
    return "it is resumed" if suspended.until is None else f"{suspended.until:%Y-%m-%d %H:%M} UTC"


def _unusable(problem: str, **facts: object) -> UsageError:
    return UsageError(
        "TIDE-CTRL-020",
        problem,
        facts=facts,
        fix="suspend it until a later moment such as 2026-12-01T06:00:00Z; without one it stays suspended "
        "until it is resumed",
    )
