"""The read position of a pipeline at its reset, from its tables' ledgers, or else from its checkpoint."""

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
    """Return the newest ledger entry that counts, of any generation of the pipeline."""
    return next(_entries(table, pipeline), None)


def read_before(
    store: Store, pipeline: Pipeline, live: Current, tables: Mapping[str, Table]
) -> dict[str, ReadBefore]:
    """Return the read position of each table, even of a missing table, or of the checkpoint if there is none.

    If a table has no offset of a partition, the checkpoint's offset is used. Tables of rejected and late
    records are left out, because they have only some of the batches.
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
    """Return the entry as `stands` does, but skip a reset's entry, which has read no records."""
    read = (e for e in _entries(table, pipeline) if not (e.mode == "base" and e.batch_id is None))
    return next(read, None)


def _entries(table: Table, pipeline: str) -> Iterator[LedgerEntry]:
    """Yield the stream's entries, newest first, without backfills."""
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
    """Return the end of the newest finished batch, or the beginning; empty if they are unreadable."""
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
