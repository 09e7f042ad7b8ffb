"""The decision: facts in, findings out. A driver that is refused ends with the first error."""

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

# The order matters because operators act on the first reason. A torn checkpoint says nothing reliable about
# the other checks, and the checkpoint of another pipeline agrees with nothing.
_CHECKS = (integrity, identity, changes, agreement, state, source, acceptable_changes, alive)


def examine(facts: CheckpointFacts) -> list[Finding]:
    """Return all findings: errors forbid the start; warnings and notes are for information."""
    return [finding for look in _CHECKS for finding in look(facts)]


def damages_of(facts: CheckpointFacts) -> list[Finding]:
    """Return the damage of the checkpoint itself: its files, its state and its source."""
    return [finding for look in (integrity, state, source) for finding in look(facts)]


def check(facts: CheckpointFacts) -> None:
    """Raise an error if the pipeline must not start. `check_holds` checks the holds.

    Raises:
        GateRefusedError: TIDE-CKPT-001 to -028, -091 to -093, -095 to -098 and -105.
    """
    _refuse_first(examine(facts))


def check_agreement(facts: CheckpointFacts) -> None:
    """Raise an error if the checkpoint and the tables do not belong together.

    A changed declaration or a problem of the source would refuse a start, but is not checked here.

    Raises:
        GateRefusedError: See `check`.
    """
    _refuse_first([finding for look in (integrity, identity, agreement) for finding in look(facts)])


def check_integrity(facts: CheckpointFacts) -> None:
    """Raise an error if the checkpoint's own files are damaged.

    Raises:
        GateRefusedError: See `check`.
    """
    _refuse_first(list(integrity(facts)))


def check_holds(store: Store, layout: Layout, pipeline: str, own: str = "") -> None:
    """Raise an error if the pipeline has a hold other than `own`.

    Raises:
        GateRefusedError: TIDE-CKPT-029.
    """
    holds = (hold for hold in read_holds(store, layout, pipeline) if hold.id != own)
    _refuse_first(list(holds_on(pipeline, holds)))


def _refuse_first(findings: list[Finding]) -> None:
    refusal = next((finding for finding in findings if finding.severity == "error"), None)
    if refusal is not None:
        raise refusal.as_error()
