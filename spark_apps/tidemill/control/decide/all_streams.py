"""Reconcile all streams of an environment; no stream delays or blocks another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from tidemill.control.decide.planning_room import PlanningRoom
from tidemill.control.decide.reconcile import Decision, Reconciler
from tidemill.control.decide.reconcile_record import keep_record, record_of
from tidemill.control.decide.side_by_side import Limits, side_by_side
from tidemill.control.decide.turn_of_streams import WaveOnDemand, wave_now
from tidemill.control.decide.visit import Outcome, Visitor, insist, undecided, utc_now
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot, is_held
from tidemill.errors import TidemillError, UnavailableError

# A visit mostly waits for storage and API server. All visits must end before the DAG run is given up
# (dags/tidemill_streams.py: 5 minutes). A visit takes milliseconds, or up to half a minute if a client
# retries.
LIMITS = Limits(at_once=16, each_seconds=45, all_seconds=240)


def ignore(_outcome: Outcome) -> None:
    """Ignore the outcome."""


def reconcile_streams(
    plane: ControlPlane,
    reconciler: Reconciler | None = None,
    clock: Callable[[], datetime] = utc_now,
    limits: Limits = LIMITS,
    tell: Callable[[Outcome], None] = ignore,
) -> list[Outcome]:
    """Bring every stream as close to its desired state as one short visit can.

    Visits all declared streams, and every pipeline whose driver runs although it is not a declared stream.

    Args:
        plane: The control plane.
        reconciler: Makes the decisions; by default with the environment's policy.
        clock: Returns the current time.
        limits: Limits of parallel visits and their duration.
        tell: Called with each visit when it ends.

    Raises:
        GateRefusedError: If another control plane owns the storage root.
    """
    outcomes = []
    began_at = clock()
    reconciler = reconciler or Reconciler(plane.environment.spec.restarts)
    for outcome in _visit_all(plane, reconciler, clock, limits):
        tell(outcome)
        outcomes.append(outcome)
    keep_record(plane.store, plane.layout, record_of(outcomes, began_at, clock()))
    return sorted(outcomes, key=lambda outcome: outcome.pipeline)


def known_streams(plane: ControlPlane) -> list[str]:
    """Return the names of all streams: declared, running, and unreadable ones that may be streams."""
    running = [name for name, slot in plane.runtime.main_slots().items() if _may_be_stream(slot)]
    declared = [name for name in plane.environment.project.pipeline_names() if _is_declared(plane, name)]
    return sorted({*running, *declared})


def _may_be_stream(slot: MainSlot | TidemillError) -> bool:
    return is_held(slot) and (
        isinstance(slot, TidemillError) or slot.start is None or slot.start.mode == "stream"
    )


def _is_declared(plane: ControlPlane, name: str) -> bool:
    try:
        return plane.environment.project.load_pipeline(name).run.mode == "stream"
    except TidemillError:
        return True


def _visit_all(
    plane: ControlPlane, reconciler: Reconciler, clock: Callable[[], datetime], limits: Limits
) -> Iterator[Outcome]:
    declared = set(plane.environment.project.pipeline_names())
    try:
        insist(plane.own)
        slots = insist(plane.runtime.main_slots)
        room = PlanningRoom(plane.environment.spec.upgrade.size(len(slots)))
        wave = WaveOnDemand(lambda: wave_now(plane, slots, clock()))
        visitor = Visitor(plane, reconciler, wave, room, clock)
    except UnavailableError as error:
        yield from (Outcome(name, undecided(error)) for name in declared)
        return
    names = declared | {name for name, slot in slots.items() if is_held(slot)}
    visits = side_by_side(
        sorted(names), lambda name, is_late: visitor.visit(name, slots.get(name, MainSlot()), is_late), limits
    )
    for name, outcomes in visits:
        yield from [_too_slow(name)] if outcomes is None else outcomes


def _too_slow(name: str) -> Outcome:
    reason = "its visit took too long: storage or API server is slow"
    return Outcome(name, Decision("unseen", reason, runbook="storage-unavailable"))
