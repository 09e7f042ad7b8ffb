"""The decision: facts in, findings out; the first one that forbids the start is what a driver ends with."""

from __future__ import annotations

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.agreement import agreement
from tidemill.checkpoint.gate.alive import alive, holds_on
from tidemill.checkpoint.gate.changes import acceptable_changes, changes
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.gate.identity import identity
from tidemill.checkpoint.gate.integrity import integrity
from tidemill.checkpoint.gate.source import source
from tidemill.checkpoint.gate.state import state
from tidemill.checkpoint.holds import read_holds
from tidemill.names import Layout
from tidemill.storage.store import Store

# What is torn says nothing sure of the rest, and another pipeline's checkpoint agrees with nothing: so in
# this order, and the first reason is the one to act upon.
_CHECKS = (integrity, identity, changes, agreement, state, source, acceptable_changes, alive)


def examine(facts: CheckpointFacts) -> list[Finding]:
    """Everything that speaks against a start (`error`) or should be known (`warning`, `note`)."""
    return [finding for look in _CHECKS for finding in look(facts)]


def damages_of(facts: CheckpointFacts) -> list[Finding]:
    """What is wrong with the checkpoint itself: its files, its state, and what it must read again."""
    return [finding for look in (integrity, state, source) for finding in look(facts)]


def check(facts: CheckpointFacts) -> None:
    """Let the pipeline start, or refuse. Holds are `check_holds`.

    Raises:
        GateRefusedError: TIDE-CKPT-001 to -028.
    """
    _refuse_first(examine(facts))


def check_agreement(facts: CheckpointFacts) -> None:
    """Refuse where the checkpoint and the tables do not belong together.

    What a changed declaration or the source forbids to a start is no matter here.

    Raises:
        GateRefusedError: As `check`.
    """
    _refuse_first([finding for look in (integrity, identity, agreement) for finding in look(facts)])


def check_integrity(facts: CheckpointFacts) -> None:
    """Refuse a checkpoint whose own files are damaged.

    Raises:
        GateRefusedError: As `check`.
    """
    _refuse_first(list(integrity(facts)))


def check_holds(store: Store, layout: Layout, pipeline: str, own: str = "") -> None:
    """Refuse while anybody holds the pipeline back, but for a hold of one's own.

    Raises:
        GateRefusedError: TIDE-CKPT-029.
    """
    holds = (hold for hold in read_holds(store, layout, pipeline) if hold.id != own)
    _refuse_first(list(holds_on(pipeline, holds)))


def _refuse_first(findings: list[Finding]) -> None:
    refusal = next((finding for finding in findings if finding.severity == "error"), None)
    if refusal is not None:
        raise refusal.as_error()
