"""Problems of streams, their begin, and the changes since the last reconciliation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from tidemill.control.decide.visit import Outcome

# Maximum time that a stream may be unseen before an operator should know. Storage and API servers are
# unavailable for minutes while they are moved or upgraded.
LONGEST_UNSEEN = timedelta(minutes=10)


class Trouble(BaseModel):
    """Problem of one stream.

    Args:
        kind: `hold`, `refused`, `failed`, `not made`, `no progress`, `overdue`, `unseen`.
        words: Text for the operator.
        runbook: Runbook page.
        since: Time since when the problem has this kind.
        red: True if an operator should know.
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
        """Return True if a reader who knows the other problem knows this one."""
        return other is not None and (self.kind, self.runbook, self.red) == (
            other.kind,
            other.runbook,
            other.red,
        )


class Report(BaseModel):
    """The streams with problems, by name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    troubles: Mapping[str, Trouble] = {}

    @property
    def red(self) -> dict[str, Trouble]:
        """Return the problems that an operator should know."""
        return {name: trouble for name, trouble in self.troubles.items() if trouble.red}


@dataclass(frozen=True)
class Change:
    """Change of a stream: its new problem, or None if it has recovered."""

    pipeline: str
    trouble: Trouble | None

    def __str__(self) -> str:
        return f"{self.pipeline}: {self.trouble or 'well again'}"


def report_of(before: Report, outcomes: Iterable[Outcome], now: datetime) -> Report:
    """Return the report of a reconciliation; the previous report determines when problems began."""
    found = {}
    for outcome in outcomes:
        trouble = _trouble_of(outcome, now)
        if trouble is not None:
            found[outcome.pipeline] = _goes_on(trouble, before.troubles.get(outcome.pipeline), now)
    return Report(troubles=found)


def changes(before: Report, after: Report) -> list[Change]:
    """Return the changes between two reports."""
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
    """Return the problem with its begin: a problem of the same kind began when the previous one did."""
    if before is None or before.kind != trouble.kind:
        return trouble
    since = min(before.since, trouble.since)
    return trouble.model_copy(update={"since": since, "red": trouble.red or now - since >= LONGEST_UNSEEN})
