"""Desired and actual state of pipelines, for the command line and the UI. Reading never fails."""

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

# Number of pipelines read in parallel.
READERS = 16


@dataclass(frozen=True)
class PipelineState:
    """Desired and actual state, and the next action of reconciliation.

    Args:
        facts: Facts known here.
        decision: Decision that would be made here.
        status: Status of its newest driver, wherever it runs.
        owner: Another control plane that owns the pipeline; None if this one does.
        stall: Reason why the stream makes no progress although it should.
    """

    facts: Facts
    decision: Decision
    status: Status | None
    owner: RootOwner | None = None
    stall: Stall | None = None

    @property
    def wish(self) -> str:
        """Return the requested state in words, with the requester."""
        facts = self.facts
        if facts.desired is None:
            return {"stream": "running", "incremental": "by schedule", None: "nothing"}[facts.mode]
        return wish_of(facts.desired, facts.now)

    @property
    def own_status(self) -> Status | None:
        """Return the status of the running driver; None without a driver, or before its first status."""
        running, status = self.facts.running, self.status
        is_own = running is not None and status is not None and is_status_of(status, running)
        return status if is_own else None


def all_states(plane: ControlPlane) -> list[PipelineState]:
    """Return the state of all declared pipelines, and of others with a driver; changes nothing."""
    slots = plane.runtime.main_slots()
    held = (name for name, slot in slots.items() if is_held(slot))
    names = sorted({*plane.environment.project.pipeline_names(), *held})
    return pipeline_states(plane, {name: slots.get(name, MainSlot()) for name in names})


def pipeline_states(
    plane: ControlPlane, slots: Mapping[str, MainSlot | TidemillError]
) -> list[PipelineState]:
    """Return the state of pipelines whose main slots were read; changes nothing.

    An error of one pipeline is returned as its state.
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

    # Reading a state mostly waits for storage.
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
