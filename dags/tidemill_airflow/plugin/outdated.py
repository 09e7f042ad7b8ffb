"""Detect an outdated snapshot and a stopped reconciliation. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.spec.readable import short_duration
from tidemill_airflow.links import runbook_address
from tidemill_airflow.plugin.answers import PageWarning

# Maximum time without a reconciliation, which runs every minute. The same as in the alert
# TidemillReconcileTooOld (helm: files/rules/control-plane.yaml).
RECONCILED_WITHIN = timedelta(minutes=10)

SILENT_PAGE = "control-plane-silent"

# Age from which a snapshot is old. Above the usual time between two snapshots (snapshot.py: half a minute, or
# four times the duration of a snapshot).
LOOKED_WITHIN = timedelta(minutes=2)


def problem_of(at: datetime | None, problem: str, now: datetime) -> str:
    """Return the reason why the shown data may be outdated; empty if there is none.

    Args:
        at: Time of the snapshot; None before the first one.
        problem: Error of the newest snapshot; empty if it succeeded.
        now: The current time.
    """
    if at is None or now - at <= LOOKED_WITHIN:
        return problem
    return "\n".join(filter(None, (problem, f"What is shown here is {short_duration(now - at)} old.")))


def reconcile_warning(
    at: datetime | None, reconciled_at: datetime | None, streams_wanted: bool
) -> PageWarning | None:
    """Return a warning if reconciliation has stopped; None while it runs.

    Args:
        at: Time of the snapshot; None before the first one.
        reconciled_at: End of the newest reconciliation in that snapshot; None if none is known.
        streams_wanted: True if any stream should run.
    """
    if at is None:
        return None
    if reconciled_at is None:
        words = "Streams are wanted, and no reconciliation is known: none is started or stopped."
        return _warning(words) if streams_wanted else None
    if at - reconciled_at <= RECONCILED_WITHIN:
        return None
    age = short_duration(at - reconciled_at)
    return _warning(f"No reconciliation has ended for {age}. Streams run on, but none is started or stopped.")


def _warning(words: str) -> PageWarning:
    return PageWarning(words=words, runbook=SILENT_PAGE, runbook_url=runbook_address(SILENT_PAGE))
