"""Desired and actual state of pipelines, for the command line and the UI. Reading is never refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.checkpoint.root_owner import RootOwner
from tidemill.checkpoint.status import Status
from tidemill.control.facts import Facts
from tidemill.control.plane import ControlPlane
from tidemill.control.progress import Stall, stall_of
from tidemill.control.reconcile import Decision, Reconciler
from tidemill.control.runtime import MainSlot
from tidemill.control.stream_facts import gather_facts
from tidemill.errors import TidemillError


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
    return [_state(plane, name, slot, owner, damage or elsewhere) for name, slot in slots.items()]


def _state(
    plane: ControlPlane,
    pipeline: str,
    slot: MainSlot | TidemillError,
    owner: RootOwner | None,
    decided: Decision | None,
) -> PipelineState:
    now = datetime.now(UTC)
    try:
        facts = gather_facts(plane, pipeline, now, slot)
    except TidemillError as error:
        failed = Decision("failed", str(error), runbook=error.runbook)
        return PipelineState(Facts(pipeline, now, problem=error), failed, None, owner)
    decision = decided or Reconciler(plane.environment.spec.restarts).decide(facts)
    return PipelineState(facts, decision, facts.newest_status, owner, None if owner else stall_of(facts))
