"""Read a pipeline's measurements from the files that its driver and Spark store anyway; write nothing.

Durations, rows, backlog and state are in `query.json`. The records read of each partition are in the offsets
of the checkpoint. Small files are in the logs of the tables. If a driver has not reported yet, its batches
are unknown, and there is no advice.
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

# Number of newest batches: as many as a driver keeps progress of (engine/query_reporter.py).
NEWEST_BATCHES = 10

# Offsets or numbers of records, by topic and partition.
Offsets = Mapping[str, Mapping[str, int]]


def read_measured(store: Store, pipeline: Pipeline, checkpoint: str, commits: Sequence[int]) -> Measured:
    """Return the measurements of a pipeline; without batches if no driver has reported.

    Args:
        store: The storage.
        pipeline: The pipeline.
        checkpoint: Its live checkpoint.
        commits: Numbers of its finished batches, in ascending order.
    """
    try:
        report = read_query_report(store, pipeline.layout, pipeline.name)
    except ValidationError:
        # The report is truncated or of another version; the next batch replaces it.
        report = None
    begin, end = _newest_offsets(CheckpointBatches(store, checkpoint), commits[-NEWEST_BATCHES:])
    return replace(measured_of(pipeline, report, begin, end), tables=tuple(read_tables(store, pipeline)))


def measured_of(pipeline: Pipeline, report: QueryReport | None, begin: Offsets, end: Offsets) -> Measured:
    """Combine a report of the newest batches with the offsets that they read."""
    if report is None:
        return Measured(pipeline, topics=_topics(begin, end, {}))
    states = [state for state in (report.last_progress or {}).get("stateOperators", ()) if state]
    topics = _topics(begin, end, _behind(report))
    found = _state(states) if states else None
    return Measured(pipeline, batches_of(report), found, topics, at=report.updated_at)


def batches_of(report: QueryReport) -> list[MeasuredBatch]:
    """Return the newest batches with records, oldest first."""
    newest = report.recent_progress
    first = newest[0].get("batchId") if newest and len(newest) < KEPT_PROGRESSES else None
    found = [(p.get("batchId") == first, _batch(p, report)) for p in newest]
    return [replace(batch, is_first=is_first) for is_first, batch in found if batch is not None]


def _batch(progress: Mapping[str, Any], report: QueryReport) -> MeasuredBatch | None:
    """Return a batch as Spark reports it; None without records, when only watermark and state move."""
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
    """Return the records read of each topic; a partition that was added since is left out."""
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
    """Return the waiting records, by topic and partition."""
    found = {}
    for source in report.sources:
        read, newest = _offsets(source.end_offset), _offsets(source.latest_offset)
        for topic, parts in newest.items():
            known = read.get(topic, {})
            found[topic] = {part: offset - known[part] for part, offset in parts.items() if part in known}
    return found


def _newest_offsets(batches: CheckpointBatches, newest: Sequence[int]) -> tuple[Offsets, Offsets]:
    """Return the start of the first of these batches and the end of the last, for all topics."""
    if not newest:
        return {}, {}
    try:
        first, last = batches.planned(newest[0]), batches.planned(newest[-1])
        ranges = {} if first is None else batches.ranges_of(first)
    except GateRefusedError:
        # The gate reports torn files.
        return {}, {}
    ends = {} if last is None else last.ends
    return _together(begin for begin, _ in ranges.values()), _together(ends.values())


def _together(documents: Iterable[Any]) -> Offsets:
    """Return the topics of all sources, which never share a topic."""
    return {topic: parts for document in documents for topic, parts in _offsets(document).items()}


def _offsets(document: Any) -> dict[str, dict[str, int]]:
    """Return a document of a Kafka source; empty for any other source."""
    if isinstance(document, str) and document.startswith("{"):
        document = json.loads(document)
    parts = document if isinstance(document, dict) else {}
    return {
        topic: offsets
        for topic, offsets in parts.items()
        if isinstance(offsets, dict) and all(isinstance(offset, int) for offset in offsets.values())
    }
