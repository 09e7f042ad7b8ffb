"""The backfills of a project: plans, their progress, and time estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import ValidationError

from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.progress import Progress, read_progress
from tidemill.backfill.staging import waits
from tidemill.control.ask.bounded_run import plan_of
from tidemill.control.plane import ControlPlane
from tidemill.errors import TidemillError

State = Literal["planned", "at work", "stopped", "staged", "finished"]


@dataclass(frozen=True)
class Backfill:
    """One plan and its progress.

    Args:
        plan: The plan.
        progress: Its newest attempt; None if it was not started.
        state: State of the backfill. `stopped` includes killed ones; `staged` rows wait to be published.
    """

    plan: BackfillPlan
    progress: Progress | None
    state: State

    @property
    def left(self) -> timedelta | None:
        """Return the remaining time; None if no driver works on it, or if the time is unknown."""
        return self.progress.left if self.progress is not None and self.state == "at work" else None

    def cells(self) -> tuple[object, ...]:
        """Return pipeline, plan, range, state, chunks, rows, begin and remaining time, for display."""
        plan, progress = self.plan, self.progress
        head = (plan.pipeline, plan.digest, plan.bounds.text(), self.state)
        if progress is None:
            return (*head, None, None, None, None)
        chunks = f"{len(progress.done)} of {progress.chunks or '?'}"
        rows = ", ".join(f"{table} {count}" for table, count in progress.rows.items())
        return (*head, chunks, rows, progress.begun_at, self.left)

    def as_document(self) -> dict[str, Any]:
        """Return plain data; `left` in seconds."""
        progress = self.progress
        return {
            "pipeline": self.plan.pipeline,
            "plan": self.plan.digest,
            "range": self.plan.bounds.text(),
            "state": self.state,
            "rows": None if progress is None else progress.rows,
            "left": None if self.left is None else self.left.total_seconds(),
            "progress": None if progress is None else progress.model_dump(mode="json"),
        }


def list_backfills(plane: ControlPlane, pipeline: str | None = None) -> list[Backfill]:
    """Return the backfills of one or all pipelines, latest begun first, without plans with damaged files."""
    digests = _digests(plane)
    names = list(digests) if pipeline is None else [pipeline]
    found = [each for name in names for each in _of_pipeline(plane, name, digests.get(name, []))]
    return sorted(found, key=_begun_at, reverse=True)


def estimate(plane: ControlPlane, plan: BackfillPlan) -> timedelta | None:
    """Return the estimated duration at the speed of the pipeline's last backfill; None without one."""
    if plan.records is None:
        return None
    store, layout, name = plane.store, plane.layout, plan.pipeline
    told = (read_progress(store, layout, name, digest) for digest in _digests(plane).get(name, []))
    speeds = [
        (progress.begun_at, speed) for progress in told if progress and (speed := progress.records_per_second)
    ]
    if not speeds:
        return None
    return timedelta(seconds=plan.records * (len(plan.parts) or 1) / max(speeds)[1])


def _digests(plane: ControlPlane) -> dict[str, list[str]]:
    digests: dict[str, list[str]] = {}
    for name, _, digest in (each.rpartition("-") for each in plane.store.list_names(plane.layout.backfills)):
        digests.setdefault(name, []).append(digest)
    return digests


def _of_pipeline(plane: ControlPlane, pipeline: str, digests: list[str]) -> Iterator[Backfill]:
    driver = plane.running(pipeline, "backfill")
    at_work = None if driver is None else plan_of(driver.run_id)
    for digest in digests:
        try:
            plan = load_plan(plane.store, plane.layout, pipeline, digest)
        except (TidemillError, ValidationError):
            continue
        progress = read_progress(plane.store, plane.layout, pipeline, digest)
        yield Backfill(plan, progress, _state(plan, progress, at_work=digest == at_work))


def _state(plan: BackfillPlan, progress: Progress | None, *, at_work: bool) -> State:
    if at_work:
        return "at work"
    if progress is None:
        return "planned"
    if waits(plan, progress):
        return "staged"
    return "stopped" if progress.finished_at is None else "finished"


def _begun_at(backfill: Backfill) -> str:
    return "" if backfill.progress is None else backfill.progress.begun_at.isoformat()
