"""Gather the facts for the decision about one stream, from the runtime and from storage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.holds import Hold, read_holds
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.remembered import remembered_in
from tidemill.control.decide.version_facts import version_facts
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot, StartedDriver
from tidemill.control.upgrade_check import verdict_so_far
from tidemill.errors import TidemillError
from tidemill.spec.capabilities import ELSEWHERE
from tidemill.spec.project import Pipeline, resolve_pipeline


def gather_stream_facts(
    plane: ControlPlane, name: str, now: datetime, slot: MainSlot | TidemillError
) -> Facts:
    """Return all facts for the decision about one pipeline.

    Args:
        plane: The control plane.
        name: The pipeline.
        now: The current time.
        slot: Content of its main slot, or the error of reading it.

    Raises:
        TidemillError: If the slot could not be read.
    """
    if isinstance(slot, TidemillError):
        raise slot
    pipeline, problem = _resolve(plane, name)
    running = slot.start if slot.start is not None and slot.start.alive else None
    ended = slot.start if running is None else None
    ending = None if ended is None else plane.ending_of(ended)
    known = remembered_in(slot.memory).with_ending(ending)
    desired = read_desired(plane.store, plane.layout, name)
    status = read_status(plane.store, plane.layout, name)
    version = {} if pipeline is None else version_facts(pipeline, known, desired, running, status)
    return Facts(
        pipeline=name,
        now=now,
        mode=_mode_of(pipeline, problem),
        problem=problem,
        by_hand=_by_hand(pipeline, problem),
        grace_period=plane.environment.spec.grace_period,
        on_change=plane.environment.spec.on_change,
        desired=desired,
        running=running,
        ended=ended,
        endings=tuple(known.endings),
        holds=_holds(plane, name, known.endings),
        newest_receipt=None if running else newest_receipt(plane.store, plane.layout, name),
        newest_status=status,
        **_patience(plane, pipeline, status if version.get("rollback") else None),
        **version,
        **({} if version.get("rollback") else _successor(plane, pipeline, running)),
    )


def _patience(plane: ControlPlane, pipeline: Pipeline | None, told: Status | None) -> dict[str, Any]:
    """Return the declared trigger and progress limit; after a rollback, those in the status."""
    if pipeline is None:
        return {"progress_within": plane.environment.spec.progress_within}
    found = {"trigger": pipeline.spec.run.trigger, "progress_within": pipeline.progress_within}
    if told is not None and told.trigger_seconds is not None:
        found["trigger"] = timedelta(seconds=told.trigger_seconds)
    if told is not None and told.progress_within_seconds is not None:
        found["progress_within"] = timedelta(seconds=told.progress_within_seconds)
    return found


def _successor(
    plane: ControlPlane, pipeline: Pipeline | None, running: StartedDriver | None
) -> dict[str, Any]:
    """Return the upgrade gate's answer about a changed definition, only if the driver would be replaced."""
    if pipeline is None or running is None or plane.environment.spec.on_change == "leave":
        return {}
    if running.mode != "stream" or running.digest == pipeline.version_digest:
        return {}
    verdict = verdict_so_far(plane, pipeline)
    objection = None if verdict is None else verdict.objection
    refusal = None if objection is None else objection.as_error()
    return {"objection": refusal, "is_planned": verdict is not None}


def _holds(plane: ControlPlane, name: str, endings: Sequence[Ending]) -> tuple[Hold, ...]:
    """Return the holds, only if a hold prevented the last start."""
    if not endings or not endings[-1].was_held:
        return ()
    return tuple(read_holds(plane.store, plane.layout, name))


def _resolve(plane: ControlPlane, name: str) -> tuple[Pipeline | None, TidemillError | None]:
    try:
        return resolve_pipeline(plane.environment, name), None
    except TidemillError as error:
        return None, error


def _by_hand(pipeline: Pipeline | None, problem: TidemillError | None) -> bool:
    if pipeline is not None:
        return not pipeline.spec.is_replayable
    return problem is not None and problem.error_id in ELSEWHERE


def _mode_of(
    pipeline: Pipeline | None, problem: TidemillError | None
) -> Literal["stream", "incremental"] | None:
    if pipeline is not None:
        return pipeline.spec.run.mode
    # TIDE-SPEC-011: the file is gone. With any other problem the file is, or may be, a stream's.
    return None if problem is not None and problem.error_id == "TIDE-SPEC-011" else "stream"
