"""`reset`: a new generation without batches that begins at given offsets.

Spark's Kafka source reads the beginning of a query from `sources/0/0` before any option. A checkpoint with
only this file and a query id begins there with batch 0. The state begins empty. The tables stay unchanged, so
the plan reports which records will never be in them and which will be duplicated. A warm start begins where
the previous generation stopped, and reads the past before that only for the state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.checkpoint.current import Current, read_current
from tidemill.checkpoint.gate import CheckpointFacts, TopicFacts
from tidemill.checkpoint.gate.checkpoint_facts import declared_by
from tidemill.checkpoint.gate.facts import SourceFacts, TableFacts
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.verbs.beginning import Beginning, compare, left_and_repeated
from tidemill.checkpoint.verbs.bring_back import bring_back_step, plan_bring_back
from tidemill.checkpoint.verbs.go_back import NewGeneration, base_entry, closed_ids, restoring
from tidemill.checkpoint.verbs.prospect import AskBroker, check_prospect
from tidemill.checkpoint.verbs.read_before import read_before, stands
from tidemill.checkpoint.verbs.tables import Table, read_tables
from tidemill.checkpoint.warm_start import WarmStart, write_warm_start
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions
from tidemill.ledger.table_restore import RestoreTable
from tidemill.names import SOURCE_NAME
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


@dataclass(frozen=True)
class Wanted:
    """The operator's choices for a reset.

    Args:
        start: First offset of each partition, by stream.
        asked: True if the offsets come from the broker.
        warm: Past from which the state is computed first; live reading begins at its end.
        without_missing: True if the operator has agreed to go without files that cannot be read again.
    """

    start: Mapping[str, Positions | None]
    asked: bool = False
    warm: WarmStart | None = None
    without_missing: bool = False


def plan_reset(store: Store, pipeline: Pipeline, wanted: Wanted, ask_broker: AskBroker) -> dict[str, Any]:
    """Return the plan, with the effect of the new beginning on each table and partition.

    Args:
        store: The storage.
        pipeline: The pipeline.
        wanted: The operator's choices.
        ask_broker: Asks the broker which records it still has.

    Raises:
        UsageError: TIDE-CKPT-041 if there is nothing to reset, TIDE-CKPT-043 if a partition has no beginning,
            TIDE-FILE-004 if files that were read are gone.
        GateRefusedError: TIDE-CKPT-075, if the source no longer has the first records.
    """
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None:
        raise UsageError(
            "TIDE-CKPT-041",
            "This pipeline has never run; there is nothing to reset.",
            fix="name starting_offsets in its file, and start it",
        )
    starts, warm = wanted.start, wanted.warm
    beginning = Beginning(_together(starts), wanted.asked, _topics(pipeline))
    tables = read_tables(pipeline)
    born = starts if warm is None else {SOURCE_NAME: warm.start}
    facts, unanswered = _checked_source(pipeline, wanted, tables, ask_broker)
    now = [stream.source.topics for stream in facts.each_stream() if stream.source.topics is not None]
    state = f"{pipeline.layout.checkpoint(pipeline.name, live.generation)}/state"
    return {
        **left_and_repeated(compare(beginning, read_before(store, pipeline, live, tables), now)),
        "parent": live.generation,
        "live": live.generation,
        "number": live.number + 1,
        "above": live.generation,
        "batch_id": None,
        "begins_after": None,
        "lineage": {},
        "start": beginning.start,
        "folders": {_folder(pipeline, name): start for name, start in born.items() if start is not None},
        "warm": None if warm is None else warm.model_dump(mode="json"),
        "tables": {name: _table(pipeline, live, table, facts) for name, table in tables.items()},
        "absent": sorted({sink.table for sink in pipeline.spec.delta_sinks} - tables.keys()),
        "state_is_lost": warm is None and bool(store.list_files(state)),
        "brought_back": plan_bring_back(store, pipeline, without_missing=wanted.without_missing),
        "unanswered": unanswered,
    }


def reset_steps(
    store: Store, pipeline: Pipeline, request: Request, plan: Mapping[str, Any], restore: RestoreTable
) -> tuple[Step, ...]:
    """Return the core's steps with an otherwise empty checkpoint, after a step for archived files."""

    def fill(folder: str, _: str) -> None:
        for source, start in plan["folders"].items():
            # The format of Spark's KafkaSourceInitialOffsetWriter: a NUL, the version, then the offsets.
            offsets = json.dumps(start, separators=(",", ":"))
            store.write(f"{folder}/sources/{source}/0", b"\0v1\n" + offsets.encode())
        if plan["warm"] is not None:
            write_warm_start(store, folder, WarmStart.model_validate(plan["warm"]))

    back = (bring_back_step(pipeline),) if plan.get("brought_back") else ()
    return (*back, *NewGeneration(store, pipeline.layout, request, plan).steps(fill, restoring(restore)))


def _read_of(pipeline: Pipeline, table: Table) -> TableFacts:
    """Return the facts of the topics that a table's rows are from."""
    told = stands(table, pipeline.name)
    return TableFacts() if told is None else TableFacts(topic_ids=told.topic_ids, cluster=told.cluster)


def _together(starts: Mapping[str, Positions | None]) -> Positions | None:
    """Return the beginnings of all Kafka streams together; None if there is no Kafka stream."""
    known = [start for start in starts.values() if start is not None]
    return {topic: partitions for start in known for topic, partitions in start.items()} if known else None


def _topics(pipeline: Pipeline) -> frozenset[str] | None:
    """Return the topics that the pipeline reads by name; None for a pattern."""
    named = [stream.source.topics_or_pattern for stream in pipeline.spec.streams.values()]
    if any(isinstance(topics, re.Pattern) for topics in named):
        return None
    return frozenset(topic for topics in named if not isinstance(topics, re.Pattern) for topic in topics)


def _folder(pipeline: Pipeline, stream: str) -> str:
    """Return a stream's folder below `sources/` in the future checkpoint."""
    return stream if pipeline.spec.has_named_streams else "0"


def _facts(pipeline: Pipeline, starts: Mapping[str, Positions | None]) -> CheckpointFacts:
    """Return the facts of the future checkpoint."""
    facts = CheckpointFacts(pipeline.name, "", declared_by(pipeline))
    begin = {name: SourceFacts(log=True, initial=start) for name, start in starts.items()}
    if pipeline.spec.has_named_streams:
        return replace(facts, sources=begin)
    return replace(facts, source=begin[SOURCE_NAME])


def _checked_source(
    pipeline: Pipeline, wanted: Wanted, tables: Mapping[str, Table], ask_broker: AskBroker
) -> tuple[CheckpointFacts, str]:
    """Return the checked facts of the future checkpoint, and why no broker was asked."""
    warm = wanted.warm
    needed = wanted.start if warm is None else {SOURCE_NAME: warm.join}
    facts, unanswered = ask_broker(_facts(pipeline, needed), pipeline)
    # The beginning of a warm start comes from the tables' offsets, so it holds only for the topic that they
    # read.
    read = {} if warm is None else {name: _read_of(pipeline, table) for name, table in tables.items()}
    check_prospect(replace(facts, tables=read), None)
    return facts, unanswered


def _table(pipeline: Pipeline, live: Current, table: Table, facts: CheckpointFacts) -> dict[str, Any]:
    told = stands(table, pipeline.name)
    # The table's position; the topic may have been recreated since.
    sources = {} if told is None else told.sources
    by_stream = {stream.stream or SOURCE_NAME: stream.source.topics for stream in facts.each_stream()}
    read = {
        name: source.model_copy(update=_of_topics(by_stream.get(name.partition(".")[0])))
        for name, source in sources.items()
    }
    return {
        "path": table.path,
        "id": table.table_id,
        "version": table.version,
        "to": table.version,
        "closes": closed_ids(live, table.name),
        "base": base_entry(pipeline, table.name, None, {"sources": read}),
    }


def _of_topics(topics: TopicFacts | None) -> dict[str, Any]:
    return {"topic_ids": None if topics is None else dict(topics.ids), "cluster": topics and topics.cluster}
