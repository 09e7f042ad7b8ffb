"""Number of streams that may get a new version in this reconciliation: the input of `waves.py`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.status import read_status
from tidemill.control.decide.remembered import Remembered, remembered_in
from tidemill.control.decide.side_by_side import Limits, side_by_side
from tidemill.control.decide.version_facts import rollback_of
from tidemill.control.decide.waves import Stage, Standing, Wave, is_in_question, stage_of, wave_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot
from tidemill.errors import TidemillError
from tidemill.spec.project import Pipeline, resolve_pipeline

# Limits for reading the records of the relevant streams, because a visit of at most 45 seconds waits for all.
LIMITS = Limits(at_once=16, each_seconds=10, all_seconds=25)

_NOBODY = Wave(0, "the environment leaves running streams as they are")


@dataclass
class WaveOnDemand:
    """The wave, computed when the first visit needs it, because most reconciliations replace nothing."""

    count: Callable[[], Wave]
    _wave: Wave | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def now(self) -> Wave:
        """Return the wave."""
        with self._lock:
            if self._wave is None:
                self._wave = self.count()
            return self._wave


def wave_now(
    plane: ControlPlane,
    slots: Mapping[str, MainSlot | TidemillError],
    now: datetime,
    limits: Limits = LIMITS,
) -> Wave:
    """Return the rest of the wave. A stream whose records are not read in time counts as on its way."""
    spec = plane.environment.spec
    if spec.on_change == "leave":
        return _NOBODY
    known = {name: slot for name, slot in slots.items() if isinstance(slot, MainSlot)}
    found = side_by_side(known, lambda name, _: _stage_or_unknown(plane, name, known[name], now), limits)
    stages: dict[str, Stage] = {name: stage or "on its way" for name, stage in found}
    return wave_of(stages, spec.upgrade.size(len(known)))


def _stage_or_unknown(plane: ControlPlane, name: str, slot: MainSlot, now: datetime) -> Stage:
    """Return the stage; a stream with unreadable records takes a place in the wave.

    Its own visit reports the error.
    """
    try:
        return _stage(plane, name, slot, now)
    except Exception:  # noqa: BLE001  # the other streams must be counted
        return "on its way"


def _stage(plane: ControlPlane, name: str, slot: MainSlot, now: datetime) -> Stage:
    running = slot.start if slot.start is not None and slot.start.alive else None
    known = remembered_in(slot.memory)
    if _went_back(plane, name, known):
        # A version that fails for one stream is not tried on the next.
        return "failed"
    if slot.start is None or slot.start.mode != "stream" or not is_in_question(running, known.endings):
        return "settled"
    pipeline = _wanted(plane, name, now)
    if pipeline is None:
        # The stream should not run: it was stopped, or its file is invalid or gone.
        return "settled"
    ending = None if running is not None else plane.ending_of(slot.start)
    standing = Standing(
        running,
        tuple(known.with_ending(ending).endings),
        pipeline.version_digest,
        read_status(plane.store, plane.layout, name),
        pipeline.progress_within,
    )
    return stage_of(standing, now)


def _went_back(plane: ControlPlane, name: str, known: Remembered) -> bool:
    """Return True if the stream runs the version before the declared one, which was given up."""
    if known.rollback is None:
        return False
    try:
        pipeline = resolve_pipeline(plane.environment, name)
    except TidemillError:
        return False
    return rollback_of(pipeline, known, read_desired(plane.store, plane.layout, name)) is not None


def _wanted(plane: ControlPlane, name: str, now: datetime) -> Pipeline | None:
    """Return the pipeline if it should run as a stream."""
    try:
        pipeline = resolve_pipeline(plane.environment, name)
    except TidemillError:
        return None
    desired = read_desired(plane.store, plane.layout, name)
    runs = pipeline.spec.is_replayable if desired is None else desired.runs(now)
    return pipeline if runs and pipeline.spec.run.mode == "stream" else None
