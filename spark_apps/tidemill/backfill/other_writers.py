"""Other writers of a pipeline's tables, whose rows a backfill must not replace."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import SpecError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import read_ledger
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class OtherWriter:
    """Another pipeline that writes a table, or has written it.

    Args:
        pipeline: Its name.
        table: The table.
        topics: Topics in its rows; None if they may be of any topic.
    """

    pipeline: str
    table: str
    topics: frozenset[str] | None


def other_writers(pipeline: Pipeline) -> list[OtherWriter]:
    """Return the declared writers, and those in the tables' ledgers."""
    tables = [sink.table for sink in pipeline.spec.delta_sinks]
    return [*_declared(pipeline, tables), *(other for table in tables for other in _known(pipeline, table))]


def _declared(pipeline: Pipeline, tables: list[str]) -> list[OtherWriter]:
    project = pipeline.environment.project
    found = []
    for name in project.pipeline_names():
        try:
            spec = project.load_pipeline(name)
        except SpecError:
            # An invalid pipeline cannot run; the ledger shows if it has run before.
            continue
        shared = [sink.table for sink in spec.delta_sinks if sink.table in tables]
        found += [OtherWriter(name, table, _topics(spec)) for table in shared if name != pipeline.name]
    return found


def _topics(spec: PipelineSpec) -> frozenset[str] | None:
    named = [stream.source.topics_or_pattern for stream in spec.streams.values()]
    if not all(isinstance(topics, list) and topics for topics in named):
        return None
    return frozenset(topic for topics in named if isinstance(topics, list) for topic in topics)


def _known(pipeline: Pipeline, table: str) -> list[OtherWriter]:
    entries = (commit.entry for commit in read_ledger(pipeline.layout.table(table)))
    topics: dict[str, frozenset[str] | None] = {}
    for entry in entries:
        if entry is not None and entry.pipeline != pipeline.name:
            read, so_far = _topics_read(entry), topics.get(entry.pipeline, frozenset())
            topics[entry.pipeline] = None if read is None or so_far is None else so_far | read
    return [OtherWriter(name, table, read) for name, read in topics.items()]


def _topics_read(entry: LedgerEntry) -> frozenset[str] | None:
    ends = [read.end for read in entry.sources.values()]
    positions = [
        end for end in ends if isinstance(end, dict) and all(isinstance(p, dict) for p in end.values())
    ]
    if not ends or len(positions) < len(ends):
        return None
    return frozenset(topic for end in positions for topic in end)
