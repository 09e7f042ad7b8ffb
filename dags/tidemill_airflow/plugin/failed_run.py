"""Whether the newest run of an incremental pipeline failed, also if it could not say so itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.restart_policy import class_of


@dataclass(frozen=True)
class FailedRun:
    """Why a run failed, and the page for it."""

    cause: str
    runbook: str = ""


def failed_run_of(facts: Facts) -> FailedRun | None:
    """The newest run of an incremental pipeline, if it failed and none has succeeded since.

    Airflow may have given up. A driver that was killed, such as for its memory, could not say that it failed;
    its place knows.
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
    """An error as a status has it, in a line."""
    return f"{error.get('id', '')} {error.get('problem', '')}".strip()


def _newest_end(facts: Facts) -> Ending | None:
    """How the newest run here ended; what a stream of this name did before says nothing."""
    is_run = facts.ended is not None and facts.ended.mode == "incremental"
    return facts.endings[-1] if is_run and facts.endings else None


def _succeeded_after(facts: Facts, last: Ending) -> bool:
    """Whether a later run, on another machine, has succeeded."""
    receipt = facts.newest_receipt
    return (
        receipt is not None
        and (receipt.mode, receipt.result, receipt.stopped_early) == ("incremental", "clean", False)
        and receipt.stopped_at > last.ended_at
    )
