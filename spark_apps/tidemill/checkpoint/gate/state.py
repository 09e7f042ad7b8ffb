"""G5: check that the next batch can load its state, and that the state belongs to this history."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts


def state(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find missing and foreign state of the newest finished batch."""
    found = facts.state
    if found.missing:
        yield facts.error(
            "TIDE-CKPT-016",
            "State that the next batch needs is missing or damaged. "
            "Spark would fail at every start, or go on with windows and keys forgotten.",
            facts.about(
                state_version=found.version, missing=list(found.missing[:5]), more=len(found.missing[5:])
            ),
            f"tidemill checkpoint rewind {facts.pipeline} --to BATCH, with one whose state is whole, "
            f"or tidemill checkpoint restore {facts.pipeline} BACKUP",
            runbook="checkpoint-state-lost",
        )
    if found.left_behind:
        again = f"tidemill checkpoint rewind {facts.pipeline} --to {facts.committed}"
        if facts.committed is None:
            again = f"tidemill checkpoint reset {facts.pipeline} --from earliest"
        yield facts.error(
            "TIDE-CKPT-002",
            "The checkpoint holds state of batches that it does not know: it was taken back by hand. "
            "Spark can pick the newer state up and count its rows twice.",
            facts.about(
                planned_batch=facts.planned,
                left_behind=list(found.left_behind[:5]),
                more=len(found.left_behind[5:]),
            ),
            f"{again}, which takes no other state along",
            runbook="checkpoint-state-lost",
        )
