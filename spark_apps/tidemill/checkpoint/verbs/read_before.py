"""How far a pipeline has read when it is reset: by its tables' ledgers, else by its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidemill.checkpoint.current import Current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.beginning import ReadBefore
from tidemill.checkpoint.verbs.tables import Table
from tidemill.checkpoint.warm_start import read_warm_start
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry, Positions
from tidemill.ledger.standing import standing_commits
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def stands(table: Table, pipeline: str) -> LedgerEntry | None:
    """What the newest standing entry of any generation of the pipeline says."""
    return next(_entries(table, pipeline), None)


def read_before(
    store: Store, pipeline: Pipeline, live: Current, tables: Mapping[str, Table]
) -> dict[str, ReadBefore]:
    """How far each table has read, also one that is not there; the checkpoint of a pipeline without tables.

    Where a table says nothing of a partition, the checkpoint does. Tables of records that were set aside are
    left out: only batches that had such records are in them.
    """
    checkpoint = _by_checkpoint(store, pipeline, live)
    found = {}
    for sink in pipeline.spec.delta_sinks:
        table = tables.get(sink.table)
        entry = None if table is None else _newest_batch(table, pipeline.name)
        if entry is not None:
            found[sink.table] = _by_entry(entry, checkpoint.ends)
        else:
            found[sink.table] = ReadBefore(read_on(checkpoint.ends, _backfills(table, pipeline.name)))
    return found or {f"checkpoint {live.generation}": checkpoint}


def _newest_batch(table: Table, pipeline: str) -> LedgerEntry | None:
    """As `stands`, but for what a reset wrote: it has read nothing, and names topics that came later."""
    read = (e for e in _entries(table, pipeline) if not (e.mode == "base" and e.batch_id is None))
    return next(read, None)


def _entries(table: Table, pipeline: str) -> Iterator[LedgerEntry]:
    """Of the stream, newest first; without its backfills."""
    return (e for e in _all_entries(table, pipeline) if e.mode != "backfill")


def _backfills(table: Table | None, pipeline: str) -> list[LedgerEntry]:
    return [] if table is None else [e for e in _all_entries(table, pipeline) if e.mode == "backfill"]


def _all_entries(table: Table, pipeline: str) -> Iterator[LedgerEntry]:
    entries = (commit.entry for commit in standing_commits(table.commits))
    return (e for e in entries if e and e.pipeline == pipeline)


def read_on(ends: Positions, backfills: Iterable[LedgerEntry]) -> Positions:
    """Move ends on by the backfills that have read from there on."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for read in (read for entry in backfills for read in entry.sources.values()):
        starts = _positions([read.start])
        for topic, partitions in _positions([read.end]).items():
            for partition, end in partitions.items():
                start = starts.get(topic, {}).get(partition, 0)
                ranges.setdefault((topic, partition), []).append((start, end))
    reached = {topic: dict(partitions) for topic, partitions in ends.items()}
    for (topic, partition), spans in ranges.items():
        for start, end in sorted(spans):
            if topic in reached and start <= reached[topic].get(partition, -1):
                reached[topic][partition] = max(end, reached[topic][partition])
    return reached


def _by_entry(entry: LedgerEntry, known: Positions) -> ReadBefore:
    ends = _positions(entry.ends.values())
    clusters = {
        topic: read.cluster
        for read in entry.sources.values()
        for topic in _positions([read.end])
        if read.cluster is not None
    }
    whole = {topic: {**known.get(topic, {}), **ends.get(topic, {})} for topic in {*known, *ends}}
    return ReadBefore(whole, entry.topic_ids, clusters)


def _by_checkpoint(store: Store, pipeline: Pipeline, live: Current) -> ReadBefore:
    """Where its newest finished batch ended, or where it began; nothing if that cannot be read."""
    path = pipeline.layout.checkpoint(pipeline.name, live.generation)
    batches = CheckpointBatches(store, path)
    try:
        last = batches.last_committed()
        offsets = None if last is None else batches.offsets(last)
    except GateRefusedError:
        return ReadBefore({})
    if offsets is not None:
        return ReadBefore(_positions(offsets.ends.values()))
    if last is not None:
        return ReadBefore({})
    warm = read_warm_start(store, path)
    if warm is not None:
        return ReadBefore(warm.end)
    folders = pipeline.streams if pipeline.spec.has_named_streams else ("0",)
    return ReadBefore(_positions(map(batches.initial_offset, folders)))


def _positions(documents: Iterable[Any]) -> Positions:
    return {
        topic: {str(partition): int(offset) for partition, offset in partitions.items()}
        for document in documents
        if isinstance(document, dict)
        for topic, partitions in document.items()
        if isinstance(partitions, dict)
    }
