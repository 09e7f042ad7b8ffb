"""The gate: may this pipeline start from this checkpoint, given what its tables say?

Facts are gathered by `gather_facts`, the decision is the pure function `check`. Each refusal says what
Spark would have done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.checkpoint.batches import CheckpointBatches
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit, open_table, read_commits
from tidemill.ledger.standing import standing_commits
from tidemill.names import transaction_id
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink
from tidemill.storage.store import Store

# Commits looked at to find this generation's newest ledger entry. Maintenance commits stand between two
# batches at most; a table that other tools wrote more often since is compared by transaction version only.
# A RESTORE among them makes the gate read the whole log.
LEDGER_LOOK_BACK = 50


@dataclass(frozen=True)
class TableFacts:
    """What one table says of the pipeline's generation.

    Args:
        last_batch: Newest batch whose rows are in the table; None if it has none.
        query_id: Query that wrote the newest ledger entry of this generation.
        backfilled_to: Where a backfill of this pipeline ended, if a first start would append its rows again.
    """

    last_batch: int | None
    query_id: str | None = None
    backfilled_to: Any = None


@dataclass(frozen=True)
class CheckpointFacts:
    """What the checkpoint and the tables say, side by side.

    Args:
        pipeline: Its name.
        generation: The checkpoint's.
        query_id: From `metadata`; None before the first start.
        planned: Newest of `offsets/`.
        committed: Newest of `commits/`.
        newest_offsets: Source documents of the newest planned batch.
        tables: By table name.
        topics: Topics that the pipeline reads by name; empty if it reads others or by pattern.
    """

    pipeline: str
    generation: str
    query_id: str | None = None
    planned: int | None = None
    committed: int | None = None
    newest_offsets: tuple[Any, ...] = ()
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()


def gather_facts(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """Read the checkpoint and the tables' logs; writes nothing."""
    batches = CheckpointBatches(store, pipeline.layout.checkpoint(pipeline.name, generation))
    planned = batches.last_planned()
    newest = batches.planned(planned) if planned is not None else None
    return CheckpointFacts(
        pipeline.name,
        generation,
        batches.query_id(),
        planned,
        batches.last_committed(),
        newest.ends if newest else (),
        {sink.table: _table_facts(pipeline, generation, sink) for sink in pipeline.spec.delta_sinks},
        _named_topics(pipeline),
    )


def check(facts: CheckpointFacts) -> None:
    """Let the pipeline start, or refuse.

    Raises:
        GateRefusedError: TIDE-CKPT-001 to -005, TIDE-CKPT-009.
    """
    _check_identity(facts)
    _check_topics(facts)
    for table, found in facts.tables.items():
        _check_first_start(facts, table, found)
        _check_agreement(facts, table, found)


def _check_identity(facts: CheckpointFacts) -> None:
    for table, found in facts.tables.items():
        if found.query_id is not None and facts.query_id is not None and found.query_id != facts.query_id:
            raise _refusal(
                facts,
                "TIDE-CKPT-001",
                "The checkpoint is not the one that wrote the table. "
                "Spark would go on from the other checkpoint's offsets and skip or repeat data.",
                {"table": table, "checkpoint_query": facts.query_id, "table_query": found.query_id},
            )


def _check_topics(facts: CheckpointFacts) -> None:
    documents = [document for document in facts.newest_offsets if isinstance(document, dict)]
    read = {topic for document in documents for topic, value in document.items() if isinstance(value, dict)}
    if facts.topics and read - facts.topics:
        raise _refusal(
            facts,
            "TIDE-CKPT-003",
            "The checkpoint has offsets of topics that this pipeline does not read. "
            "Spark would fail, or start the pipeline's own topics anew.",
            {"checkpoint_topics": sorted(read), "pipeline_topics": sorted(facts.topics)},
        )


def _check_first_start(facts: CheckpointFacts, table: str, found: TableFacts) -> None:
    if facts.planned is None and facts.committed is None and found.backfilled_to is not None:
        raise _refusal(
            facts,
            "TIDE-CKPT-009",
            "A backfill has filled the table, and the pipeline has never run live. "
            "Spark would read from the beginning and append the same rows again.",
            {"table": table, "backfilled_to": found.backfilled_to},
        )


def _check_agreement(facts: CheckpointFacts, table: str, found: TableFacts) -> None:
    """After a crash the table may be one batch ahead of `commits/`, which Spark repeats.

    Never more, and never behind.
    """
    committed = -1 if facts.committed is None else facts.committed
    last = -1 if found.last_batch is None else found.last_batch
    batches = {"table": table, "checkpoint_batch": facts.committed, "table_batch": found.last_batch}
    if last > committed + 1 or (last > committed and (facts.planned is None or last > facts.planned)):
        raise _refusal(
            facts,
            "TIDE-CKPT-004",
            "The checkpoint is older than the table. "
            f"Spark would silently skip batches {committed + 1}-{last}.",
            batches,
        )
    if last < committed:
        raise _refusal(
            facts,
            "TIDE-CKPT-005",
            "The table is older than the checkpoint. Spark would go on after batch "
            f"{committed}, and batches {last + 1}-{committed} would be missing.",
            batches,
        )


_RUNBOOKS = {
    "TIDE-CKPT-001": "checkpoint-of-another-pipeline",
    "TIDE-CKPT-003": "checkpoint-of-another-pipeline",
    "TIDE-CKPT-004": "checkpoint-behind-table",
    "TIDE-CKPT-005": "checkpoint-ahead-of-table",
    "TIDE-CKPT-009": "backfill",
}


def _refusal(
    facts: CheckpointFacts, error_id: str, problem: str, found: Mapping[str, object]
) -> GateRefusedError:
    runbook = _RUNBOOKS[error_id]
    return GateRefusedError(
        error_id,
        f"{problem} Nothing was started, read or written.",
        facts={"pipeline": facts.pipeline, "generation": facts.generation, **found},
        fix=f"put back the checkpoint and the table that belong together; see the runbook {runbook}",
        runbook=runbook,
    )


def _table_facts(pipeline: Pipeline, generation: str, sink: DeltaSink) -> TableFacts:
    path = pipeline.layout.table(sink.table)
    table = open_table(path)
    if table is None:
        return TableFacts(None)
    commits = read_commits(path, LEDGER_LOOK_BACK)
    restored = any(commit.operation == "RESTORE" for commit in commits)
    if restored:
        commits = read_commits(path)
    newest = _newest_entry(commits, pipeline.name, generation)
    if newest is not None:
        return TableFacts(newest.batch_id, newest.query_id)
    backfilled_to = (
        _backfilled_to(commits, pipeline.name) if _appends_from_the_beginning(pipeline, sink) else None
    )
    if restored:
        return TableFacts(None, None, backfilled_to)
    last_batch = table.transaction_version(transaction_id(pipeline.name, generation, sink.table))
    return TableFacts(last_batch, None, backfilled_to)


def _appends_from_the_beginning(pipeline: Pipeline, sink: DeltaSink) -> bool:
    source = pipeline.spec.source
    start = source.chosen.starting_offsets if source.is_kafka else "earliest"
    return sink.mode == "append" and start == "earliest"


def _backfilled_to(newest_first: list[Commit], pipeline: str) -> Any:
    entries = (commit.entry for commit in standing_commits(newest_first))
    mine = (e for e in entries if e and e.pipeline == pipeline and e.mode == "backfill")
    return next(({name: read.end for name, read in entry.sources.items()} for entry in mine), None)


def _newest_entry(newest_first: list[Commit], pipeline: str, generation: str) -> LedgerEntry | None:
    entries = (commit.entry for commit in standing_commits(newest_first))
    return next((e for e in entries if e and e.pipeline == pipeline and e.generation == generation), None)


def _named_topics(pipeline: Pipeline) -> frozenset[str]:
    topics = pipeline.spec.source.topics_or_pattern
    return frozenset() if isinstance(topics, re.Pattern) else frozenset(topics)
