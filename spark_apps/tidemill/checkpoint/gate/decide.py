"""The decision: facts in, findings out; the first one that forbids the start is what a driver ends with."""

from __future__ import annotations

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.agreement import agreement
from tidemill.checkpoint.gate.alive import alive, holds_on
from tidemill.checkpoint.gate.changes import changes
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.gate.identity import identity
from tidemill.checkpoint.gate.integrity import integrity
from tidemill.checkpoint.gate.source import source
from tidemill.checkpoint.gate.state import state
from tidemill.checkpoint.holds import read_holds
from tidemill.errors import GateRefusedError
from tidemill.names import Layout
from tidemill.storage.store import Store

# What is torn says nothing sure of the rest, and another pipeline's checkpoint agrees with nothing: so in
# this order, and the first reason is the one to act upon.
_CHECKS = (integrity, identity, changes, agreement, state, source, alive)


def examine(facts: CheckpointFacts) -> list[Finding]:
    """Everything that speaks against a start (`error`) or should be known (`warning`, `note`)."""
    return [finding for look in _CHECKS for finding in look(facts)]


def check(facts: CheckpointFacts) -> None:
    """Let the pipeline start, or refuse. Holds are `check_holds`.

    Raises:
        GateRefusedError: TIDE-CKPT-001 to -028.
    """
    _refuse_first(examine(facts))


def check_holds(store: Store, layout: Layout, pipeline: str) -> None:
    """Refuse while anybody holds the pipeline back.

    Raises:
        GateRefusedError: TIDE-CKPT-029.
    """
    _refuse_first(list(holds_on(pipeline, read_holds(store, layout, pipeline))))


def _refuse_first(findings: list[Finding]) -> None:
    refusal = next((finding for finding in findings if finding.severity == "error"), None)
    if refusal is not None:
        raise GateRefusedError(
            refusal.finding_id,
            f"{refusal.problem} Nothing was started, read or written.",
            facts=refusal.facts,
            fix=refusal.fix,
            runbook=refusal.runbook,
        )
