"""Desired and actual state of one pipeline, for the command line and the UI."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.checkpoint.status import Status, read_status
from tidemill.control.plane import ControlPlane
from tidemill.control.reconcile import Decision, Facts, Reconciler
from tidemill.control.streams import gather_facts


@dataclass(frozen=True)
class PipelineState:
    """What should be, what is, and what the next reconciliation would do."""

    facts: Facts
    decision: Decision
    status: Status | None


def pipeline_state(plane: ControlPlane, pipeline: str) -> PipelineState:
    """Look at one pipeline; changes nothing."""
    facts = gather_facts(plane, pipeline, datetime.now(UTC))
    return PipelineState(
        facts=facts,
        decision=Reconciler().decide(facts),
        status=read_status(plane.store, plane.layout, pipeline),
    )
