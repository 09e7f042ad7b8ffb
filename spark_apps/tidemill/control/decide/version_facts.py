"""Facts about a stream's versions: the one that should run, and the one that could replace it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.status import Status
from tidemill.control.decide.kept_version import place_of
from tidemill.control.decide.remembered import Remembered
from tidemill.control.decide.rollback import Rollback, version_before
from tidemill.control.runtime import StartedDriver
from tidemill.errors import TidemillError
from tidemill.ledger.read import read_ledger
from tidemill.spec.project import Pipeline

# Commits of a table to search for those of a new version, which was started minutes ago.
SEARCHED_COMMITS = 50


def version_facts(
    pipeline: Pipeline,
    known: Remembered,
    desired: Desired | None,
    running: StartedDriver | None,
    status: Status | None,
) -> dict[str, Any]:
    """Return `digest`, `kept`, `rollback` and `back_to` of the facts.

    Args:
        pipeline: The declared pipeline.
        known: Its stored data.
        desired: The requested state.
        running: Its driver.
        status: Status of its newest driver.
    """
    declared, rollback = pipeline.version_digest, rollback_of(pipeline, known, desired)
    kept = None if known.kept is None else known.kept.digest
    if rollback is not None:
        return {"digest": rollback.to, "kept": kept, "rollback": rollback}
    return {"digest": declared, "kept": kept, "back_to": _back_to(pipeline, known, running, status)}


def rollback_of(pipeline: Pipeline, known: Remembered, desired: Desired | None) -> Rollback | None:
    """Return the rollback if the declared version is still given up."""
    rollback = known.rollback
    if rollback is None or not _may(pipeline) or known.kept is None or known.kept.digest != rollback.to:
        return None
    asked_later = desired is not None and desired.at > rollback.at
    return rollback if rollback.version == pipeline.version_digest and not asked_later else None


def _may(pipeline: Pipeline) -> bool:
    spec = pipeline.environment.spec
    return spec.on_change == "restart" and spec.upgrade.rollback


def _back_to(
    pipeline: Pipeline, known: Remembered, running: StartedDriver | None, status: Status | None
) -> str | None:
    if not _may(pipeline) or known.kept is None or known.kept.place != place_of(pipeline.environment):
        return None
    before, declared = version_before(pipeline.version_digest, known), pipeline.version_digest
    starts = {ending.run_id: ending.started_at for ending in known.endings if ending.digest == declared}
    if running is not None and running.digest == declared:
        starts[running.run_id] = running.claimed_at
    if before is None or not starts:
        return before
    if not pipeline.spec.delta_sinks:
        # Without a ledger, any progress since then counts.
        progressed_at = None if status is None else status.progressed_at
        return before if progressed_at is None or progressed_at < min(starts.values()) else None
    return None if _has_written(pipeline, starts) else before


def _has_written(pipeline: Pipeline, runs: Collection[str]) -> bool:
    """Return True if a table has a commit of these runs, or cannot be read."""
    try:
        return any(
            commit.entry is not None and commit.entry.run_id in runs
            for sink in pipeline.spec.delta_sinks
            for commit in read_ledger(pipeline.layout.table(sink.table), SEARCHED_COMMITS)
        )
    except TidemillError:
        return True
