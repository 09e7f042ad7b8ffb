"""A driver's status as Prometheus text (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemill.checkpoint.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class _Metric:
    name: str
    kind: str
    help: str
    value: float | None


def metrics_text(status: Status, last_sign: datetime) -> str:
    """All metrics of one driver; one that has no value yet is left out.

    Totals count since the driver started, as Prometheus expects of a counter.

    Args:
        status: What the driver says of itself.
        last_sign: When it last gave a sign of life.
    """
    labels = _labels({"pipeline": status.pipeline, "mode": status.mode})
    lines = [line for metric in _metrics(status, last_sign) for line in _lines(metric, labels)]
    return "\n".join([*lines, *_rows_by_output(status)]) + "\n"


def _metrics(status: Status, last_sign: datetime) -> Iterable[_Metric]:
    milliseconds = status.batch_milliseconds
    seconds = None if milliseconds is None else milliseconds / 1000
    yield _Metric("tidemill_batch_id", "gauge", "Newest batch.", status.batch_id)
    yield _Metric("tidemill_batch_duration_seconds", "gauge", "Time that the newest batch took.", seconds)
    yield _Metric(
        "tidemill_lag_records", "gauge", "Records behind the source's newest, all partitions.", status.lag
    )
    yield _Metric("tidemill_rows_total", "counter", "Rows read.", status.rows)
    yield _Metric(
        "tidemill_quarantined_rows_total", "counter", "Rows that went aside.", status.quarantined_rows
    )
    yield _Metric("tidemill_late_rows_total", "counter", "Rows behind the watermark.", status.late_rows)
    yield _Metric("tidemill_watermark_timestamp_seconds", "gauge", "Watermark.", _moment(status.watermark))
    yield _Metric(
        "tidemill_last_commit_timestamp_seconds",
        "gauge",
        "When the newest batch was committed.",
        _moment(status.batch_committed_at),
    )
    yield _Metric(
        "tidemill_last_progress_timestamp_seconds",
        "gauge",
        "When a batch was last committed, or the source last found empty, by this driver or one before.",
        _moment(status.progressed_at or status.started_at),
    )
    yield _Metric("tidemill_last_sign_timestamp_seconds", "gauge", "Last sign of life.", _moment(last_sign))
    yield _Metric("tidemill_start_timestamp_seconds", "gauge", "Start.", _moment(status.started_at))


def _rows_by_output(status: Status) -> Iterable[str]:
    if not status.rows_by_output:
        return
    name = "tidemill_output_rows_total"
    yield from (f"# HELP {name} Rows written, by output.", f"# TYPE {name} counter")
    for output, rows in sorted(status.rows_by_output.items()):
        yield f"{name}{_labels({'pipeline': status.pipeline, 'mode': status.mode, 'output': output})} {rows}"


def _lines(metric: _Metric, labels: str) -> Iterable[str]:
    if metric.value is None:
        return
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    yield f"{metric.name}{labels} {metric.value}"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _moment(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
