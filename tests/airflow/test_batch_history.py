"""Tests of the batches behind the Streams page's charts, as drivers report them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.spark_progress import EVERY, report_of, told_batches
from tidemill.checkpoint.query_report import QueryReport
from tidemill_airflow.plugin.batch_history import KEPT_POINTS, merged

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def report(count: int, at: datetime = NOON, first: int = 0) -> QueryReport:
    batches, aside = told_batches(count, at, first)
    told: dict[str, Any] = {"recent_progress": batches, "rows_aside": aside}
    return report_of("orders", at).model_copy(update=told)


def test_a_batch_is_a_point_with_all_that_is_drawn() -> None:
    point = merged((), report(6))[-1]
    assert (point.batch_id, point.rows, point.input_rate, point.processed_rate) == (5, 305, 105.0, 205.0)
    assert (point.batch_milliseconds, point.parts) == (1450, {"addBatch": 1250, "walCommit": 40})
    assert (point.lag, point.partition_lag) == (600, {"orders-0": 600, "orders-1": 7})
    assert (point.quarantined_rows, point.late_rows) == (2, 1)
    assert (point.state_rows, point.state_bytes) == (1005, 4_000_000)
    # The newest event is 5 seconds old, the watermark a minute.
    assert point.watermark_delay_seconds == 55.0


def test_each_batch_is_one_point_however_often_it_is_told() -> None:
    points = merged(merged((), report(6)), report(6))
    points = merged(points, report(6, NOON + 2 * EVERY, first=2))
    assert [point.batch_id for point in points] == list(range(8))
    assert merged(points, None) == points


def test_the_newest_points_are_kept() -> None:
    points = merged((), report(KEPT_POINTS + 5))
    assert (len(points), points[-1].at) == (KEPT_POINTS, NOON)
    assert points[0].at == NOON - EVERY * (KEPT_POINTS - 1)


def test_what_is_no_batch_is_left_out_and_a_driver_of_a_version_before_tells_less() -> None:
    batches, _ = told_batches(1, NOON)
    older = {name: value for name, value in batches[0].items() if name not in ("sources", "eventTime")}
    broken = ({}, {"timestamp": "noon", "batchId": 1}, {"timestamp": NOON.isoformat(), "batchId": "?"})
    found = report(1).model_copy(update={"recent_progress": (*broken, older), "rows_aside": ()})
    (point,) = merged((), found)
    assert (point.lag, point.partition_lag, point.watermark_delay_seconds) == (None, {}, None)
    assert (point.quarantined_rows, point.late_rows) == (0, 0)
    early = {**batches[0], "eventTime": {"max": NOON.isoformat(), "watermark": "1970-01-01T00:00:00Z"}}
    (point,) = merged((), report(1).model_copy(update={"recent_progress": (early,)}))
    assert point.watermark_delay_seconds is None
    assert point.at - NOON == timedelta(0)
