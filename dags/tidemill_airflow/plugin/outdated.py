"""What is too old to be trusted: what the page shows, and the reconciliation of the streams. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.spec.readable import short_duration
from tidemill_airflow.links import runbook_address
from tidemill_airflow.plugin.answers import PageWarning

# Longest time without a reconciliation, which comes every minute: as the alert TidemillReconcileTooOld
# (helm: files/rules/control-plane.yaml).
RECONCILED_WITHIN = timedelta(minutes=10)

SILENT_PAGE = "control-plane-silent"

# Age from which a look counts as old. Above the usual time between two (snapshot.py: half a minute, or four
# times as long as a look took).
LOOKED_WITHIN = timedelta(minutes=2)


def problem_of(at: datetime | None, problem: str, now: datetime) -> str:
    """Why what is shown may no longer be so; empty if nothing speaks against it.

    Args:
        at: When the streams were looked at; None if nobody has looked yet.
        problem: Why the newest look failed; empty if it did not.
        now: The time.
    """
    if at is None or now - at <= LOOKED_WITHIN:
        return problem
    return "\n".join(filter(None, (problem, f"What is shown here is {short_duration(now - at)} old.")))


def reconcile_warning(
    at: datetime | None, reconciled_at: datetime | None, streams_wanted: bool
) -> PageWarning | None:
    """What to say of a reconciliation that is dead; None while there is one.

    Args:
        at: When the streams were looked at; None if nobody has looked yet.
        reconciled_at: When the newest reconciliation ended, as that look has found; None if none is known.
        streams_wanted: Whether any stream should run.
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
