"""Reads what was measured of a pipeline, from what its driver and Spark have stored anyway; writes nothing.

Durations, rows, backlog and state are in `query.json`; what was read of each partition is in the offsets of
the checkpoint; small files are in the logs of the tables. Where a driver has said nothing yet, nothing is
known of its batches, and no advice is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tidemill.checkpoint.doctor.measured import Measured, MeasuredBatch, MeasuredState, MeasuredTopic
from tidemill.checkpoint.doctor.measured_table import read_tables
from tidemill.checkpoint.query_report import KEPT_PROGRESSES, QueryReport, read_query_report
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.errors import GateRefusedError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Batches that are looked back at: as many as a driver keeps progress of (engine/query_reporter.py).
NEWEST_BATCHES = 10

# Topics, and in each the offsets or records of its partitions.
Offsets = Mapping[str, Mapping[str, int]]


def read_measured(store: Store, pipeline: Pipeline, checkpoint: str, commits: Sequence[int]) -> Measured:
    """What was measured of a pipeline; without batches if nobody said anything.

    Args:
        store: The storage.
        pipeline: Which.
        checkpoint: Its live checkpoint.
        commits: Numbers of its finished batches, rising.
    """
    try:
        report = read_query_report(store, pipeline.layout, pipeline.name)
    except ValidationError:
        # Of a version that says other things, or cut: the next batch replaces it.
        report = None
    begin, end = _newest_offsets(CheckpointBatches(store, checkpoint), commits[-NEWEST_BATCHES:])
    return replace(measured_of(pipeline, report, begin, end), tables=tuple(read_tables(store, pipeline)))


def measured_of(pipeline: Pipeline, report: QueryReport | None, begin: Offsets, end: Offsets) -> Measured:
    """What a report says of the newest batches, and what they read between two places."""
    if report is None:
        return Measured(pipeline, topics=_topics(begin, end, {}))
    states = [state for state in (report.last_progress or {}).get("stateOperators", ()) if state]
    topics = _topics(begin, end, _behind(report))
    found = _state(states) if states else None
    return Measured(pipeline, batches_of(report), found, topics, at=report.updated_at)


def batches_of(report: QueryReport) -> list[MeasuredBatch]:
    """Its newest batches that had records, oldest first."""
    newest = report.recent_progress
    first = newest[0].get("batchId") if newest and len(newest) < KEPT_PROGRESSES else None
    found = [(p.get("batchId") == first, _batch(p, report)) for p in newest]
    return [replace(batch, is_first=is_first) for is_first, batch in found if batch is not None]


def _batch(progress: Mapping[str, Any], report: QueryReport) -> MeasuredBatch | None:
    """A batch as Spark reports it; None of one without records, which only moves watermark and state."""
    rows, took = int(progress.get("numInputRows") or 0), progress.get("durationMs") or {}
    if rows == 0 or "triggerExecution" not in took:
        return None
    times = next((t for t in report.sink_times if t.batch_id == progress.get("batchId")), None)
    sources = progress.get("sources", ())
    told = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in sources]
    behind = [int(value) for value in told if value is not None]
    return MeasuredBatch(
        rows,
        int(took["triggerExecution"]),
        int(took.get("addBatch", 0)),
        max(behind) if behind else None,
        sum(int(s.get("numRowsDroppedByWatermark") or 0) for s in progress.get("stateOperators", ())),
        {} if times is None else times.milliseconds,
        None if times is None else times.reader,
    )


def _state(states: Sequence[Mapping[str, Any]]) -> MeasuredState:
    names = ("numRowsTotal", "memoryUsedBytes", "commitTimeMs")
    return MeasuredState(*(sum(int(state.get(name) or 0) for state in states) for name in names))


def _topics(begin: Offsets, end: Offsets, behind: Offsets) -> tuple[MeasuredTopic, ...]:
    """What was read of each topic; a partition that was added meanwhile is left out."""
    return tuple(
        MeasuredTopic(
            topic,
            {part: offset - begin[topic][part] for part, offset in parts.items() if part in begin[topic]},
            behind.get(topic, {}),
        )
        for topic, parts in sorted(end.items())
        if topic in begin
    )


def _behind(report: QueryReport) -> dict[str, dict[str, int]]:
    """Records that wait, by topic and partition."""
    found = {}
    for source in report.sources:
        read, newest = _offsets(source.end_offset), _offsets(source.latest_offset)
        for topic, parts in newest.items():
            known = read.get(topic, {})
            found[topic] = {part: offset - known[part] for part, offset in parts.items() if part in known}
    return found


def _newest_offsets(batches: CheckpointBatches, newest: Sequence[int]) -> tuple[Offsets, Offsets]:
    """Where the first of these batches began, and where the last ended, of all sources that are topics."""
    if not newest:
        return {}, {}
    try:
        first, last = batches.planned(newest[0]), batches.planned(newest[-1])
        ranges = {} if first is None else batches.ranges_of(first)
    except GateRefusedError:
        # Torn: the gate's to say.
        return {}, {}
    ends = {} if last is None else last.ends
    return _together(begin for begin, _ in ranges.values()), _together(ends.values())


def _together(documents: Iterable[Any]) -> Offsets:
    """The topics of all sources; no two read the same one."""
    return {topic: parts for document in documents for topic, parts in _offsets(document).items()}


def _offsets(document: Any) -> dict[str, dict[str, int]]:
    """A document of Kafka's source; empty for any other."""
    if isinstance(document, str) and document.startswith("{"):
        document = json.loads(document)
    parts = document if isinstance(document, dict) else {}
    return {
        topic: offsets
        for topic, offsets in parts.items()
        if isinstance(offsets, dict) and all(isinstance(offset, int) for offset in offsets.values())
    }
