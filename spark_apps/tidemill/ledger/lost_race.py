"""Repeat commits that lose to other writers; each loss means that another writer made progress."""

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
    """Commits to one table that can lose to other writers.

    Args:
        facts: Facts of the final error: the table, and the intended write.
        fix: Next action for the reader.
        runbook: Page of the error.
        lost: Exceptions of a lost attempt.
        attempts: Maximum number of lost commits before the work is given up and repeated as a whole. Only a
            writer that never stops wins ten.
    """

    facts: Mapping[str, object]
    fix: str
    runbook: str = ""
    lost: tuple[type[Exception], ...] = (LostRaceError,)
    attempts: int = 10

    def until_won(self, attempt: Callable[[], Result]) -> Result:
        """Return the result of the first attempt that is not lost.

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
