"""Changes of the declaration that the checkpoint does not survive.

What decides is what Spark pinned in the offset log at the query's birth and what the newest ledger entry
says of the declaration that wrote it. Whether a changed transform still fits the state's schema only Spark
can tell; it refuses such a start by itself, before the first batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.gate.source import kind_of_offsets

_PARTITIONS = "spark.sql.shuffle.partitions"


def changes(facts: CheckpointFacts) -> Iterator[Finding]:
    """Source, partitions, event time and output mode against what the checkpoint was written with."""
    yield from _source(facts)
    if facts.state.operators:
        yield from _shuffle_partitions(facts)
        yield from _stateful_shape(facts)


def _source(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = facts.planned_batches.get(-1 if facts.planned is None else facts.planned)
    if newest is None:
        return
    # A transform that joins its source with itself has a line for each use. Their offsets may differ, because
    # Spark asks for each use by itself; their number Spark compares by itself.
    found = [kind_of_offsets(end) for end in newest.ends.values()]
    if not found or any(kinds and facts.declared.shape.source not in kinds for kinds in found):
        yield Finding(
            "TIDE-CKPT-025",
            "error",
            facts.pipeline,
            "The pipeline's source is another one than the checkpoint's. "
            "Spark would fail, or take the old offsets for places in the new source.",
            facts.about(
                checkpoint_sources=len(found),
                checkpoint_kind="/".join(sorted(set().union(*found))) or "unknown",
                pipeline_kind=facts.declared.shape.source,
            ),
            "take the change back, give the new flow a new name, "
            f"or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="pipeline-changed",
        )


def _shuffle_partitions(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = facts.planned_batches.get(-1 if facts.planned is None else facts.planned)
    pinned = None if newest is None else newest.conf.get(_PARTITIONS)
    declared = facts.declared.shape.shuffle_partitions
    if pinned is not None and pinned != str(declared):
        yield Finding(
            "TIDE-CKPT-026",
            "error",
            facts.pipeline,
            "`run.shuffle_partitions` was changed, and the state was made with another number. "
            "Spark would ignore the change without a word.",
            facts.about(checkpoint_partitions=int(pinned), pipeline_partitions=declared),
            f"tidemill checkpoint repartition {facts.pipeline} {declared}, or take the change back",
            runbook="pipeline-changed",
        )


def _stateful_shape(facts: CheckpointFacts) -> Iterator[Finding]:
    now = facts.declared.shape
    before = next((found.shape for found in facts.tables.values() if found.shape is not None), None)
    if before is None or (before.event_time, before.output_mode) == (now.event_time, now.output_mode):
        return
    yield Finding(
        "TIDE-CKPT-027",
        "error",
        facts.pipeline,
        "The event-time column or the output mode was changed, and the state was made with the old one. "
        "Spark would close windows by the other clock, or write results again.",
        facts.about(
            checkpoint_declared={"event_time": before.event_time, "output_mode": before.output_mode},
            pipeline_declared={"event_time": now.event_time, "output_mode": now.output_mode},
        ),
        f"take the change back, give the new flow a new name, or tidemill checkpoint reset {facts.pipeline} "
        "--from earliest",
        runbook="pipeline-changed",
    )
