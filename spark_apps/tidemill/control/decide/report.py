"""What is wrong with the streams, since when, and what has changed since the last reconciliation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from tidemill.control.decide.visit import Outcome

# Longest that a stream may stay unseen before a person should know: storage and API servers that are moved or
# upgraded are unavailable for minutes.
LONGEST_UNSEEN = timedelta(minutes=10)


class Trouble(BaseModel):
    """What is wrong with one stream.

    Args:
        kind: `hold`, `refused`, `failed`, `not made`, `no progress`, `overdue`, `unseen`.
        words: For a person.
        runbook: The page.
        since: Since when it is of this kind.
        red: Whether a person should know.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    words: str
    runbook: str = ""
    since: datetime
    red: bool

    def __str__(self) -> str:
        page = f"\n  Runbook: {self.runbook}" if self.runbook not in self.words else ""
        return f"{self.kind} since {self.since:%Y-%m-%d %H:%M} UTC: {self.words}{page}"

    def is_same(self, other: Trouble | None) -> bool:
        """Whether a person who knows of the other one knows of this."""
        return other is not None and (self.kind, self.runbook, self.red) == (
            other.kind,
            other.runbook,
            other.red,
        )


class Report(BaseModel):
    """The streams that something is wrong with, by name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    troubles: Mapping[str, Trouble] = {}

    @property
    def red(self) -> dict[str, Trouble]:
        """Those that a person should know of."""
        return {name: trouble for name, trouble in self.troubles.items() if trouble.red}


@dataclass(frozen=True)
class Change:
    """News about a stream: what is wrong with it now; None if it is well again."""

    pipeline: str
    trouble: Trouble | None

    def __str__(self) -> str:
        return f"{self.pipeline}: {self.trouble or 'well again'}"


def report_of(before: Report, outcomes: Iterable[Outcome], now: datetime) -> Report:
    """What a reconciliation has found; what was found before tells since when."""
    found = {}
    for outcome in outcomes:
        trouble = _trouble_of(outcome, now)
        if trouble is not None:
            found[outcome.pipeline] = _goes_on(trouble, before.troubles.get(outcome.pipeline), now)
    return Report(troubles=found)


def changes(before: Report, after: Report) -> list[Change]:
    """What a person does not know yet."""
    news = [
        Change(name, trouble)
        for name, trouble in after.red.items()
        if not trouble.is_same(before.troubles.get(name))
    ]
    return [*news, *(Change(name, None) for name in before.red if name not in after.red)]


def _trouble_of(outcome: Outcome, now: datetime) -> Trouble | None:
    decision, stall = outcome.decision, outcome.stall
    if decision.needs_human:
        kind = "not made" if decision.alarm else decision.action
        return Trouble(kind=kind, words=decision.reason, runbook=decision.runbook, since=now, red=True)
    if stall is not None:
        return Trouble(
            kind=stall.kind, words=stall.reason, runbook=stall.runbook, since=stall.since, red=True
        )
    if decision.action == "unseen":
        return Trouble(kind="unseen", words=decision.reason, runbook=decision.runbook, since=now, red=False)
    return None


def _goes_on(trouble: Trouble, before: Trouble | None, now: datetime) -> Trouble:
    """A trouble of the kind that was there before is as old as that one."""
    if before is None or before.kind != trouble.kind:
        return trouble
    since = min(before.since, trouble.since)
    return trouble.model_copy(update={"since": since, "red": trouble.red or now - since >= LONGEST_UNSEEN})
