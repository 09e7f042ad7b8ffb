"""Spark's progress of a batch with everything in it that a driver measures, and its report."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tidemill.checkpoint.query_report import BatchTimes, QueryReport, RowsAside

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
    """Return the query report of the driver `r` after that batch and the one before it."""
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


# Interval of the batches in a chart.
EVERY = timedelta(seconds=3)


def told_batches(
    count: int, newest_at: datetime, first: int = 0
) -> tuple[tuple[dict[str, Any], ...], tuple[RowsAside, ...]]:
    """Return consecutive batches, each with a different lag, phases, state and set-aside rows.

    Partition 0 of `orders` falls behind by 100 records a batch, partition 1 does not.
    """
    numbers = range(first, first + count)
    told = tuple(_told(number, newest_at - EVERY * (numbers[-1] - number)) for number in numbers)
    aside = tuple(RowsAside(batch_id=number, quarantined=number % 3, late=number % 2) for number in numbers)
    return told, aside


def _told(number: int, at: datetime) -> dict[str, Any]:
    event_time = {"max": (at - timedelta(seconds=5)).isoformat(), "watermark": (at - EVERY * 20).isoformat()}
    milliseconds = 1200 + 10 * number
    lags = {"orders-0": 100 * (number + 1), "orders-1": 7}
    return {
        "batchId": number,
        "timestamp": at.isoformat(),
        "numInputRows": 300 + number,
        "inputRowsPerSecond": 100.0 + number,
        "processedRowsPerSecond": 200.0 + number,
        "durationMs": {"addBatch": milliseconds, "walCommit": 40, "triggerExecution": milliseconds + 200},
        "eventTime": event_time,
        "stateOperators": [{"numRowsTotal": 1000 + number, "memoryUsedBytes": 4_000_000}],
        "sources": [{"metrics": {"maxOffsetsBehindLatest": str(lags["orders-0"])}, "partitionLag": lags}],
    }
