"""Desired and actual state of pipelines, for the command line and the UI. Reading is never refused."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.checkpoint.root_owner import RootOwner
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import is_status_of
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.progress import Stall, stall_of
from tidemill.control.decide.reconcile import Decision, Reconciler
from tidemill.control.decide.stream_facts import gather_stream_facts
from tidemill.control.decide.suspension import wish_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot, is_held
from tidemill.errors import TidemillError

# Pipelines that are looked at at once.
READERS = 16


@dataclass(frozen=True)
class PipelineState:
    """What should be, what is, and what the next reconciliation would do.

    Args:
        facts: What is known here.
        decision: What would be done here.
        status: What its newest driver says of itself, wherever it runs.
        owner: Another control plane, whose the pipeline is; None if it is this one's.
        stall: Why the stream makes no progress, if it should.
    """

    facts: Facts
    decision: Decision
    status: Status | None
    owner: RootOwner | None = None
    stall: Stall | None = None

    @property
    def wish(self) -> str:
        """What is asked of the pipeline, in words, and by whom."""
        facts = self.facts
        if facts.desired is None:
            return {"stream": "running", "incremental": "by schedule", None: "nothing"}[facts.mode]
        return wish_of(facts.desired, facts.now)

    @property
    def own_status(self) -> Status | None:
        """What the running driver says of itself; None if none runs, or it has not said anything yet."""
        running, status = self.facts.running, self.status
        is_own = running is not None and status is not None and is_status_of(status, running)
        return status if is_own else None


def all_states(plane: ControlPlane) -> list[PipelineState]:
    """Look at all pipelines that are declared, and at those that have a driver without; changes nothing."""
    slots = plane.runtime.main_slots()
    held = (name for name, slot in slots.items() if is_held(slot))
    names = sorted({*plane.environment.project.pipeline_names(), *held})
    return pipeline_states(plane, {name: slots.get(name, MainSlot()) for name in names})


def pipeline_states(
    plane: ControlPlane, slots: Mapping[str, MainSlot | TidemillError]
) -> list[PipelineState]:
    """Look at pipelines, whose main slots were looked at; changes nothing.

    What cannot be looked at is told in its place.
    """
    owner: RootOwner | None = None
    damage: Decision | None = None
    try:
        owner = plane.foreign_owner()
    except TidemillError as error:
        damage = Decision("failed", str(error), runbook=error.runbook)
    elsewhere = None if owner is None else Decision("leave", f"another control plane's: {owner}")

    def state(name: str) -> PipelineState:
        return _state(plane, name, slots[name], owner, damage or elsewhere)

    # Each look waits for storage.
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(state, slots))


def _state(
    plane: ControlPlane,
    pipeline: str,
    slot: MainSlot | TidemillError,
    owner: RootOwner | None,
    decided: Decision | None,
) -> PipelineState:
    now = datetime.now(UTC)
    try:
        facts = gather_stream_facts(plane, pipeline, now, slot)
    except TidemillError as error:
        failed = Decision("failed", str(error), runbook=error.runbook)
        return PipelineState(Facts(pipeline, now, problem=error), failed, None, owner)
    decision = decided or Reconciler(plane.environment.spec.restarts).decide(facts)
    return PipelineState(facts, decision, facts.newest_status, owner, None if owner else stall_of(facts))
