"""Detect a failed newest run of an incremental pipeline, even if the driver could not report it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.restart_policy import class_of


@dataclass(frozen=True)
class FailedRun:
    """Cause of a failed run, and its runbook page."""

    cause: str
    runbook: str = ""


def failed_run_of(facts: Facts) -> FailedRun | None:
    """Return the newest run of an incremental pipeline if it failed and none has succeeded since.

    Airflow may have given up. A driver that was killed, for example for its memory use, could not report its
    failure, but the runtime knows it.
    """
    if facts.mode != "incremental" or facts.running is not None:
        return None
    status = facts.newest_status
    if status is not None and status.state == "failed":
        error = status.error or {}
        return FailedRun(words_of_error(error) or "its last run failed", str(error.get("runbook") or ""))
    last = _newest_end(facts)
    if (
        last is None
        or class_of(last) in ("clean", "fenced")
        or last.was_held
        or _succeeded_after(facts, last)
    ):
        return None
    return FailedRun(f"its last run ended before its time: {last.cause}", last.runbook)


def words_of_error(error: Mapping[str, Any]) -> str:
    """Return the error of a status as one line."""
    return f"{error.get('id', '')} {error.get('problem', '')}".strip()


def _newest_end(facts: Facts) -> Ending | None:
    """Return the end of the newest run; ignores an earlier stream of the same name."""
    is_run = facts.ended is not None and facts.ended.mode == "incremental"
    return facts.endings[-1] if is_run and facts.endings else None


def _succeeded_after(facts: Facts, last: Ending) -> bool:
    """Return True if a later run on another machine has succeeded."""
    receipt = facts.newest_receipt
    return (
        receipt is not None
        and (receipt.mode, receipt.result, receipt.stopped_early) == ("incremental", "clean", False)
        and receipt.stopped_at > last.ended_at
    )
