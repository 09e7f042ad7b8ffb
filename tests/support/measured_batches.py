"""A driver's `query.json` of ten batches, as Spark 4.2 reports them, with values from a test."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.query_report import (
    BatchTimes,
    QueryReport,
    SinkReport,
    SourceReport,
    write_query_report,
)
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

BATCHES = 10


def progress(batch_id: int, milliseconds: int = 1_000, rows: int = 500, behind: int = 0) -> dict[str, Any]:
    """Spark's progress of a batch over one topic, as it is kept of the newest ones."""
    return {
        "batchId": batch_id,
        "numInputRows": rows,
        "durationMs": {"addBatch": milliseconds - 50, "triggerExecution": milliseconds},
        "stateOperators": [],
        "sources": [{"numInputRows": rows, "metrics": {"maxOffsetsBehindLatest": str(behind)}}],
    }


def write_measured(
    pipeline: Pipeline,
    *,
    sinks: Mapping[str, int] | None = None,
    reader: str | None = None,
    latest: Mapping[str, int] | None = None,
    first: int | None = None,
    **batch: int,
) -> None:
    """Write a driver's report of ten batches, or of fewer that include its first.

    Args:
        pipeline: The pipeline.
        sinks: Milliseconds of each batch at each sink.
        reader: The sink that read the rows first.
        first: Milliseconds of its first batch, which is still among the newest.
        latest: Newest offset of each partition of `orders`, all of which were read up to 0.
        batch: Values of `progress`.
    """
    now = datetime.now(UTC)
    newest = [progress(batch_id, **batch) for batch_id in range(BATCHES)]
    if first is not None:
        newest = [progress(0, **{**batch, "milliseconds": first}), *newest[1:-1]]
    source = SourceReport(
        end_offset={"orders": dict.fromkeys(latest or {}, 0)}, latest_offset={"orders": dict(latest or {})}
    )
    report = QueryReport(
        pipeline=pipeline.name,
        run_id="run-1",
        id="i",
        query_run_id="q",
        name=pipeline.name,
        started_at=now,
        updated_at=now,
        sources=(source,),
        sinks=tuple(SinkReport(name=sink) for sink in sinks or ()),
        last_progress=newest[-1],
        recent_progress=tuple(newest),
        sink_times=tuple(
            BatchTimes(batch_id=place, milliseconds=dict(sinks), reader=reader) for place in range(BATCHES)
        )
        if sinks
        else (),
    )
    write_query_report(Store(pipeline.layout.root), pipeline.layout, report)
