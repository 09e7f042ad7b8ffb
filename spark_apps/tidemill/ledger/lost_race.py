"""Commits that other writers win: tried again, because each loss means that someone else made progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidemill.errors import UnavailableError

Result = TypeVar("Result")


class LostRaceError(Exception):
    """Another writer's commit came first."""


@dataclass(frozen=True)
class Race:
    """Commits of one table that others may win.

    Args:
        facts: Of the error in the end: the table, and what should be written to it.
        fix: What the reader can do.
        runbook: The error's page.
        lost: What a lost attempt raises.
        attempts: Commits lost before the work is given up and repeated as a whole. Only something that writes
            without end wins ten.
    """

    facts: Mapping[str, object]
    fix: str
    runbook: str = ""
    lost: tuple[type[Exception], ...] = (LostRaceError,)
    attempts: int = 10

    def until_won(self, attempt: Callable[[], Result]) -> Result:
        """What the first attempt gives that is not lost.

        Raises:
            UnavailableError: TIDE-SINK-002, if other writers won every attempt.
        """
        last: Exception | None = None
        for _ in range(self.attempts):
            try:
                return attempt()
            except self.lost as error:
                last = error
        raise UnavailableError(
            "TIDE-SINK-002",
            "Other writers won every attempt to commit.",
            facts={**self.facts, "attempts": self.attempts},
            fix=self.fix,
            runbook=self.runbook,
        ) from last
