"""Spark's progress of a batch with everything in it that a driver measures, and its report."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidemill.checkpoint.query_report import BatchTimes, QueryReport

PROGRESS: dict[str, Any] = {
    "batchId": 7,
    "timestamp": "2026-11-22T12:00:00.000Z",
    "inputRowsPerSecond": 50.5,
    "processedRowsPerSecond": 210.0,
    "durationMs": {"addBatch": 900, "walCommit": 30, "triggerExecution": 1000},
    "eventTime": {"max": "2026-11-22T11:59:30.000Z", "watermark": "2026-11-22T11:49:00.000Z"},
    "stateOperators": [
        {"operatorName": "stateStoreSave", "numRowsTotal": 12, "memoryUsedBytes": 4096},
        {"operatorName": "stateStoreSave", "numRowsTotal": 3, "memoryUsedBytes": 1024},
    ],
    "sources": [
        {"endOffset": {"orders": {"0": 10, "1": 40}}, "latestOffset": {"orders": {"0": 15, "1": 140, "2": 5}}}
    ],
}


def report_of(pipeline: str, at: datetime, progress: dict[str, Any] | None = None) -> QueryReport:
    """What the driver `r` says of its query after that batch, and one before."""
    return QueryReport(
        pipeline=pipeline,
        run_id="r",
        id="i",
        query_run_id="q",
        name=pipeline,
        started_at=at,
        updated_at=at,
        last_progress=PROGRESS if progress is None else progress,
        sink_times=(
            BatchTimes(batch_id=6, milliseconds={"bronze/orders": 1}),
            BatchTimes(batch_id=7, milliseconds={"bronze/orders": 850}),
        ),
    )
