"""A driver's metrics, computed without I/O from its status and Spark's last progress.

Metrics are computed in groups. If a group fails, e.g. because the progress has an unknown form, it is left
out and named in `tidemill_metrics_failed`. The other groups, and other pipelines, are still reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemill import metrics
from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.engine.lag import furthest_behind, lag_of
from tidemill.engine.progress_times import moment_of
from tidemill.metrics import Metric, Sample

# Maximum number of stateful operators with metrics; a plan with ten joins has ten operators.
MOST_OPERATORS = 20

Values = Iterable[tuple[Metric, float | None, *tuple[str, ...]]]


@dataclass(frozen=True)
class DriverFacts:
    """Input for the metrics of one driver.

    Args:
        status: Newest status of the driver.
        last_sign: Time of its last sign of life.
        query: Newest report of its query; None before the first one, and in a backfill.
    """

    status: Status
    last_sign: datetime
    query: QueryReport | None = None

    @property
    def progress(self) -> dict[str, Any]:
        """Return Spark's progress of this driver's newest batch; empty if there is none."""
        query = self.query
        is_own = query is not None and query.run_id == self.status.run_id
        return (query.last_progress or {}) if query is not None and is_own else {}


def driver_samples(facts: DriverFacts) -> Iterator[Sample]:
    """Yield all metrics of one driver, except metrics that have no value yet."""
    of_driver = (facts.status.pipeline, facts.status.mode)
    for name, group in GROUPS.items():
        try:
            values = list(group(facts))
        except Exception:  # noqa: BLE001  # metrics must never fail a stream, nor the scrape of the others
            values = [(metrics.FAILED_GROUP, 1.0, name)]
        for metric, value, *labels in values:
            if value is not None:
                yield Sample(metric, float(value), (*of_driver, *labels))


def _life(facts: DriverFacts) -> Values:
    status = facts.status
    yield metrics.START, _seconds(status.started_at)
    yield metrics.LAST_SIGN, _seconds(facts.last_sign)
    yield metrics.LAST_PROGRESS, _seconds(status.progressed_at or status.started_at)
    yield metrics.PROGRESS_WITHIN, status.progress_within_seconds
    yield metrics.LAST_COMMIT, _seconds(status.batch_committed_at)
    yield metrics.EPOCH, status.epoch
    yield metrics.TRIGGER, status.trigger_seconds


def _batch(facts: DriverFacts) -> Values:
    status = facts.status
    yield metrics.BATCH_ID, status.batch_id
    yield metrics.BATCHES, status.batches
    yield metrics.BATCH_DURATION, _of_milliseconds(status.batch_milliseconds)
    for part, milliseconds in sorted(facts.progress.get("durationMs", {}).items()):
        if part != "triggerExecution":
            yield metrics.BATCH_PART, _of_milliseconds(milliseconds), part


def _rows(facts: DriverFacts) -> Values:
    status = facts.status
    yield metrics.ROWS, status.rows
    yield metrics.QUARANTINED, status.quarantined_rows
    yield metrics.LATE, status.late_rows
    yield metrics.NO_EVENT_TIME, status.no_event_time_rows
    for output, rows in sorted(status.rows_by_output.items()):
        yield metrics.OUTPUT_ROWS, rows, output
    for table, counts in sorted(status.expectation_violations.items()):
        for expectation, rows in sorted(counts.items()):
            yield metrics.VIOLATIONS, rows, table, expectation


def _rates(facts: DriverFacts) -> Values:
    yield metrics.INPUT_RATE, facts.progress.get("inputRowsPerSecond")
    yield metrics.PROCESSED_RATE, facts.progress.get("processedRowsPerSecond")


def _sinks(facts: DriverFacts) -> Values:
    times = facts.query.sink_times if facts.query is not None and facts.progress else ()
    for output, milliseconds in sorted(times[-1].milliseconds.items()) if times else ():
        yield metrics.SINK_DURATION, _of_milliseconds(milliseconds), output


def _lag(facts: DriverFacts) -> Values:
    yield metrics.LAG, facts.status.lag
    found = lag_of(facts.progress)
    # While the source is empty the lag is 0, although Spark's progress is from the batch before.
    if found is None or facts.status.lag is None:
        return
    yield metrics.LAG_MAX, 0 if facts.status.lag == 0 else max(lag.records for lag in found)
    yield metrics.PARTITIONS, len(found)
    for lag in furthest_behind(found):
        records = 0 if facts.status.lag == 0 else lag.records
        yield metrics.PARTITION_LAG, records, lag.topic, lag.partition


def _event_time(facts: DriverFacts) -> Values:
    yield metrics.WATERMARK, _seconds(facts.status.watermark)
    began = moment_of(facts.progress.get("timestamp"))
    times = facts.progress.get("eventTime", {})
    if began is None:
        return
    if facts.status.watermark is not None:
        yield metrics.WATERMARK_DELAY, (began - facts.status.watermark).total_seconds()
    newest = moment_of(times.get("max"))
    if newest is not None:
        yield metrics.EVENT_TIME_DELAY, (began - newest).total_seconds()


def _state(facts: DriverFacts) -> Values:
    operators = facts.progress.get("stateOperators", ())[:MOST_OPERATORS]
    for place, operator in enumerate(operators):
        # The position distinguishes operators with the same name, such as two joins.
        name = f"{place}:{operator.get('operatorName', 'state')}"
        yield metrics.STATE_ROWS, operator.get("numRowsTotal"), name
        yield metrics.STATE_BYTES, operator.get("memoryUsedBytes"), name


GROUPS: dict[str, Callable[[DriverFacts], Values]] = {
    "life": _life,
    "batch": _batch,
    "rows": _rows,
    "rates": _rates,
    "sinks": _sinks,
    "lag": _lag,
    "event_time": _event_time,
    "state": _state,
}


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _of_milliseconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
