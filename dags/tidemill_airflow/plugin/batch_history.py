"""Convert Spark's progress reports to chart points; drivers keep ten reports, the server keeps more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from tidemill.checkpoint.query_report import QueryReport, RowsAside
from tidemill_airflow.plugin.answers import HistoryPoint

# Points kept for each pipeline: half an hour with a trigger of ten seconds. 1,000 pipelines need 60 MB.
KEPT_POINTS = 180

# Duration of the whole batch, which is charted next to its parts.
_WHOLE = "triggerExecution"


def merged(known: tuple[HistoryPoint, ...], report: QueryReport | None) -> tuple[HistoryPoint, ...]:
    """Return the known points plus the new points of a report, oldest first."""
    if report is None:
        return known
    newest = known[-1].at if known else datetime.fromtimestamp(0, UTC)
    aside = {each.batch_id: each for each in report.rows_aside}
    told = (point for p in report.recent_progress if (point := point_of(p, aside)) is not None)
    fresh = sorted((point for point in told if point.at > newest), key=lambda point: point.at)
    return (*known, *fresh)[-KEPT_POINTS:] if fresh else known


def point_of(progress: Mapping[str, Any], aside: Mapping[int, RowsAside]) -> HistoryPoint | None:
    """Return the point of one batch, with its quarantined and late rows; None for an invalid document."""
    try:
        at = datetime.fromisoformat(str(progress["timestamp"]))
        rows = aside.get(int(progress["batchId"]), RowsAside(batch_id=0))
        return _point(at if at.tzinfo else at.replace(tzinfo=UTC), progress, rows)
    except (KeyError, TypeError, ValueError):
        return None


def _point(at: datetime, progress: Mapping[str, Any], aside: RowsAside) -> HistoryPoint:
    took = {name: int(value) for name, value in (progress.get("durationMs") or {}).items()}
    states = [state for state in progress.get("stateOperators") or () if state]
    return HistoryPoint(
        at=at,
        batch_id=int(progress["batchId"]),
        rows=int(progress.get("numInputRows") or 0),
        input_rate=_finite(progress.get("inputRowsPerSecond")),
        processed_rate=_finite(progress.get("processedRowsPerSecond")),
        batch_milliseconds=took.pop(_WHOLE, None),
        parts=took,
        lag=_lag(progress),
        partition_lag=_partition_lag(progress),
        watermark_delay_seconds=_delay(progress),
        quarantined_rows=aside.quarantined,
        late_rows=aside.late,
        state_rows=_sum(states, "numRowsTotal"),
        state_bytes=_sum(states, "memoryUsedBytes"),
    )


def _lag(progress: Mapping[str, Any]) -> int | None:
    """Return the lag of the slowest partition after the batch, in records."""
    metrics = [source.get("metrics") or {} for source in progress.get("sources") or ()]
    behind = [float(told["maxOffsetsBehindLatest"]) for told in metrics if "maxOffsetsBehindLatest" in told]
    return round(max(behind)) if behind else None


def _partition_lag(progress: Mapping[str, Any]) -> dict[str, int]:
    sources = progress.get("sources") or ()
    return {name: int(lag) for source in sources for name, lag in (source.get("partitionLag") or {}).items()}


def _delay(progress: Mapping[str, Any]) -> float | None:
    """Return the distance of the watermark from the newest event, in seconds."""
    times = progress.get("eventTime") or {}
    if "max" not in times or "watermark" not in times:
        return None
    newest, watermark = (datetime.fromisoformat(str(times[name])) for name in ("max", "watermark"))
    # Before the first event the watermark is 1970.
    return None if watermark.year == 1970 else (newest - watermark).total_seconds()


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _sum(states: list[Mapping[str, Any]], name: str) -> int:
    return sum(int(state.get(name) or 0) for state in states)
