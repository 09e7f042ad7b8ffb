"""Going back to the version before: when, and what is remembered of it. Pure.

A new version that makes no progress keeps a stream down; the one before it would not. It has written nothing,
so the one before goes on from the same batch, past its own gate. The new one is not tried again until the
declaration changes, or a person starts the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tidemill.control.endings import Ending, is_status_of
from tidemill.control.hung import NO_PROGRESS_PAGE
from tidemill.control.waves import Standing, failing_since

if TYPE_CHECKING:
    from tidemill.checkpoint.desired import Desired
    from tidemill.control.facts import Facts
    from tidemill.control.kept_version import KeptVersion
    from tidemill.control.reconcile import Decision
    from tidemill.control.runtime import StartedDriver


class Rollback(BaseModel):
    """That a version was given up.

    Args:
        version: Its digest.
        to: Digest of the version that takes its place.
        at: When.
        why: Why, for a person.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str
    to: str
    at: datetime
    why: str

    def holds(self, declared: str, kept: KeptVersion | None, desired: Desired | None) -> bool:
        """Whether it keeps the declared version from being tried."""
        asked_later = desired is not None and desired.at > self.at
        return self.version == declared and kept is not None and kept.digest == self.to and not asked_later


def version_before(declared: str, kept: KeptVersion | None, endings: Iterable[Ending]) -> str | None:
    """Digest of the version to go back to; None if there is none, or if a later one made progress."""
    if kept is None or kept.digest == declared:
        return None
    later = (ending for ending in endings if ending.digest != kept.digest and ending.ended_at > kept.kept_at)
    return None if any(ending.progressed for ending in later) else kept.digest


def why_given_up(facts: Facts, decision: Decision) -> str:
    """Why the declared version is given up, rather than what was decided; empty if it is not.

    It was refused, or its restarts are used up; or it runs for longer than it may and has not begun its first
    batch. One that is at work on a long one is left, and so is one that waits for its source.
    """
    if facts.back_to is None:
        return ""
    driver = facts.running
    if driver is None:
        return facts.endings[-1].cause if decision.action in ("hold", "refused") and facts.endings else ""
    hangs = decision.action == "stop" and decision.runbook == NO_PROGRESS_PAGE
    if driver.digest != facts.digest or not (hangs or decision.action in ("leave", "failed")):
        return ""
    standing = Standing(driver, facts.endings, facts.digest, facts.newest_status, facts.progress_within)
    since = failing_since(standing, facts.now)
    if since is None or not (hangs or _has_not_begun(facts, driver)):
        return ""
    return driver.stuck or f"no batch since it was started at {since:%Y-%m-%d %H:%M} UTC"


def _has_not_begun(facts: Facts, driver: StartedDriver) -> bool:
    status = facts.newest_status
    return status is None or not is_status_of(status, driver) or status.state == "starting"
