"""G1: check that the checkpoint belongs to this pipeline, and that only its generation writes."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts


def identity(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare query, topics and generation with those that wrote the tables."""
    yield from _query(facts)
    for stream in facts.each_stream():
        yield from _topics(stream)
    yield from _generation(facts)


def _query(facts: CheckpointFacts) -> Iterator[Finding]:
    for table, found in facts.tables.items():
        if found.query_id is None or facts.query_id is None or found.query_id == facts.query_id:
            continue
        yield facts.error(
            "TIDE-CKPT-001",
            "The checkpoint is not the one that wrote the table. "
            "Spark would go on from the other checkpoint's offsets and skip or repeat data.",
            facts.about(table=table, checkpoint_query=facts.query_id, table_query=found.query_id),
            f"put its own folder back, or tidemill checkpoint restore {facts.pipeline} BACKUP",
            runbook="checkpoint-of-another-pipeline",
        )


def _topics(facts: CheckpointFacts) -> Iterator[Finding]:
    end = facts.end_of(facts.planned)
    read = (
        {topic for topic, value in end.items() if isinstance(value, dict)} if isinstance(end, dict) else set()
    )
    named = facts.declared.topics
    if named and read - named:
        yield facts.error(
            "TIDE-CKPT-003",
            "The checkpoint has offsets of topics that this pipeline does not read. "
            "Spark would fail, or start the pipeline's own topics anew.",
            facts.about(checkpoint_topics=sorted(read), pipeline_topics=sorted(named)),
            "read the old topics as well, give the new flow a new name, "
            f"or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="checkpoint-of-another-pipeline",
        )


def _generation(facts: CheckpointFacts) -> Iterator[Finding]:
    for table, found in facts.all_tables().items():
        if found.written_by is not None:
            yield facts.error(
                "TIDE-CKPT-019",
                "Another generation of this pipeline has written to the table since this one began. "
                "Spark would write the same rows beside it.",
                facts.about(table=table, written_by=found.written_by),
                f"see whose driver it was: tidemill ledger {facts.pipeline}; stop it, then "
                f"tidemill checkpoint rewind {facts.pipeline} --to vN, the version before its first batch",
                runbook="two-drivers",
            )
