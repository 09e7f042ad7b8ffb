"""Rollback to the previous version: conditions and record. Pure.

A new version that cannot make its first batch keeps the stream down, while the previous version could run.
The new version has written nothing, so the previous one continues from the same batch after its own gate. The
new version is not tried again until the declaration changes or an operator starts the stream.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tidemill.control.decide.endings import is_status_of
from tidemill.control.decide.hung import NO_PROGRESS_PAGE
from tidemill.control.decide.restart_policy import class_of

if TYPE_CHECKING:
    from tidemill.control.decide.facts import Facts
    from tidemill.control.decide.reconcile import Decision
    from tidemill.control.decide.remembered import Remembered


class Rollback(BaseModel):
    """Record that a version was given up.

    Args:
        version: Its digest.
        to: Digest of the version that replaces it.
        at: Time of the rollback.
        why: Reason, in readable form.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str
    to: str
    at: datetime
    why: str

    @property
    def words(self) -> str:
        """Return the rollback in readable form."""
        return f"the version before, since {self.at:%Y-%m-%d %H:%M} UTC: the new one was given up, {self.why}"


def version_before(declared: str, known: Remembered) -> str | None:
    """Return the digest of the version to go back to; None if no version can safely continue.

    That version was drained for its successor, and no successor has made a batch.
    """
    kept = known.kept
    if kept is None or kept.digest == declared:
        return None
    own = [ending for ending in known.endings if ending.digest == kept.digest]
    later = (ending for ending in known.endings if ending.digest != kept.digest)
    written = any(ending.committed and ending.ended_at > kept.kept_at for ending in later)
    return kept.digest if own and class_of(own[-1]) == "clean" and not written else None


def why_given_up(facts: Facts, decision: Decision) -> str:
    """Return why the declared version is given up; empty if it is not.

    Either it was refused, or its restarts are used up. Or, for longer than allowed, its driver has not
    started or hangs before its first batch. A driver that works on a long batch or waits for its source is
    left alone.
    """
    if facts.back_to is None:
        return ""
    driver, status = facts.running, facts.newest_status
    if driver is None:
        return facts.endings[-1].cause if decision.action in ("hold", "refused") and facts.endings else ""
    hangs = decision.action == "stop" and decision.runbook == NO_PROGRESS_PAGE
    if driver.drain_requested_at is not None or driver.digest != facts.digest:
        return ""
    if not (hangs or decision.action in ("leave", "failed")):
        return ""
    asked_at = driver.claimed_at if facts.desired is None else max(driver.claimed_at, facts.desired.at)
    if facts.now - asked_at <= facts.progress_within:
        return ""
    if status is not None and is_status_of(status, driver):
        return decision.reason if hangs and status.batch_committed_at is None else ""
    since = f"{driver.claimed_at:%H:%M} UTC"
    return driver.stuck or f"its driver ({driver.process}), started at {since}, has not come up"
