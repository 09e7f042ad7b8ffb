"""A rule of advice, and shared thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.checkpoint.doctor.measured import Measured

# Minimum share of a batch that counts as most of it.
MOST = 0.6

TUNING = "tuning"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Rule:
    """One line of the table in `advice.py`.

    Args:
        finding_id: Its id.
        problem: One sentence.
        facts: Returns the measurements that contradict the declaration; None if there are none.
        fix: Returns the change to make.
        is_urgent: Returns True for a warning, False for a note.
        runbook: Page of the rule.
    """

    finding_id: str
    problem: str
    facts: Callable[[Measured], Facts | None]
    fix: Callable[[Measured], str]
    is_urgent: Callable[[Measured], bool] = lambda _: True
    runbook: str = TUNING
