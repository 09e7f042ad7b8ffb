"""What a rule of advice is, and what several of them go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.checkpoint.doctor.measured import Measured

# Share of a batch that is most of it.
MOST = 0.6

TUNING = "tuning"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Rule:
    """One line of the table in `advice.py`.

    Args:
        finding_id: Its id.
        problem: One sentence.
        facts: The measured values that speak against the declaration; None if they do not.
        fix: What to change.
        is_urgent: Whether it is worth a warning; else it is a note.
        runbook: The page.
    """

    finding_id: str
    problem: str
    facts: Callable[[Measured], Facts | None]
    fix: Callable[[Measured], str]
    is_urgent: Callable[[Measured], bool] = lambda _: True
    runbook: str = TUNING
