"""Every metric, defined once: its name, its meaning, and its labels.

Dashboards and alerts of users depend on these names, so `tests/unit/test_metrics.py` pins them. The table in
`observe/README.md` is generated from them. Units are in the names, as Prometheus recommends: seconds, bytes,
rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Labels of all metrics of one driver.
OF_DRIVER = ("pipeline", "mode")

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: Its Prometheus name.
        about: Its description, in a sentence.
        labels: Names of its labels.
        kind: A counter only rises, until its process ends.
    """

    name: str
    about: str
    labels: tuple[str, ...] = OF_DRIVER
    kind: Kind = "gauge"


@dataclass(frozen=True)
class Sample:
    """One value of a metric; `labels` are the values of the metric's labels, in order."""

    metric: Metric
    value: float
    labels: tuple[str, ...]


def _driver(name: str, about: str, *labels: str, kind: Kind = "gauge") -> Metric:
    return Metric(name, about, (*OF_DRIVER, *labels), kind)


# Metrics of each driver.

START = _driver("tidemill_start_timestamp_seconds", "Start time of the driver.")
LAST_SIGN = _driver(
    "tidemill_last_sign_timestamp_seconds",
    "Time of the last sign of life: a change of the status, a Spark event or an ended task.",
)
LAST_PROGRESS = _driver(
    "tidemill_last_progress_timestamp_seconds",
    "Time at which this driver or an earlier one last committed a batch or found the source empty.",
)
PROGRESS_WITHIN = _driver(
    "tidemill_progress_within_seconds",
    "Maximum time without progress (`progress_within`).",
)
LAST_COMMIT = _driver("tidemill_last_commit_timestamp_seconds", "Commit time of the newest batch.")
EPOCH = _driver("tidemill_epoch", "Epoch of the driver. A higher epoch fences off all lower ones.")
BATCH_ID = _driver("tidemill_batch_id", "Number of the newest batch.")
BATCHES = _driver("tidemill_batches_total", "Batches written since the driver started.", kind="counter")
BATCH_DURATION = _driver("tidemill_batch_duration_seconds", "Duration of the newest batch.")
BATCH_PART = _driver(
    "tidemill_batch_part_duration_seconds",
    "Duration of each part of the newest batch, with Spark's names: `addBatch` reads, transforms and writes, "
    "`walCommit` and `commitOffsets` write the checkpoint.",
    "part",
)
SINK_DURATION = _driver(
    "tidemill_sink_duration_seconds",
    "Duration of each output in the newest batch. The first one includes reading.",
    "output",
)
TRIGGER = _driver(
    "tidemill_trigger_interval_seconds", "The declared trigger interval. 0 means as fast as possible."
)
INPUT_RATE = _driver("tidemill_input_rows_per_second", "Rows per second that arrived since the last batch.")
PROCESSED_RATE = _driver(
    "tidemill_processed_rows_per_second", "Rows per second that the newest batch processed."
)
ROWS = _driver("tidemill_rows_total", "Rows read since the driver started.", kind="counter")
OUTPUT_ROWS = _driver(
    "tidemill_output_rows_total",
    "Rows written since the driver started, by output.",
    "output",
    kind="counter",
)
QUARANTINED = _driver(
    "tidemill_quarantined_rows_total", "Rows quarantined since the driver started.", kind="counter"
)
LATE = _driver(
    "tidemill_late_rows_total",
    "Late rows (older than the watermark) since the driver started.",
    kind="counter",
)
NO_EVENT_TIME = _driver(
    "tidemill_no_event_time_rows_total",
    "Rows without an event time that windows dropped since the driver started.",
    kind="counter",
)
VIOLATIONS = _driver(
    "tidemill_expectation_violations_total",
    "Rows that violated an expectation since the driver started.",
    *("table", "expectation"),
    kind="counter",
)
LAG = _driver("tidemill_lag_records", "Lag in records behind the end of the source, over all partitions.")
LAG_MAX = _driver("tidemill_lag_max_records", "Lag in records of the partition with the largest lag.")
PARTITIONS = _driver("tidemill_source_partitions", "Number of partitions that are read.")
PARTITION_LAG = _driver(
    "tidemill_partition_lag_records",
    "Lag in records of each of the 20 partitions with the largest lag.",
    *("topic", "partition"),
)
WATERMARK = _driver("tidemill_watermark_timestamp_seconds", "The watermark.")
WATERMARK_DELAY = _driver(
    "tidemill_watermark_delay_seconds", "Delay of the watermark behind the clock at the newest batch."
)
EVENT_TIME_DELAY = _driver(
    "tidemill_event_time_delay_seconds",
    "Delay of the newest batch's newest event behind the clock at the start of the batch.",
)
STATE_ROWS = _driver("tidemill_state_rows", "Rows in the state, by stateful operator.", "operator")
STATE_BYTES = _driver("tidemill_state_memory_bytes", "Memory of the state, by stateful operator.", "operator")
FAILED_GROUP = _driver(
    "tidemill_metrics_failed", "1 for each group of metrics that cannot be computed now.", "group"
)

DRIVER_METRICS = (
    *(START, LAST_SIGN, LAST_PROGRESS, PROGRESS_WITHIN, LAST_COMMIT, EPOCH),
    *(BATCH_ID, BATCHES, BATCH_DURATION, BATCH_PART, SINK_DURATION, TRIGGER),
    *(INPUT_RATE, PROCESSED_RATE, ROWS, OUTPUT_ROWS, QUARANTINED, LATE, NO_EVENT_TIME, VIOLATIONS),
    *(LAG, LAG_MAX, PARTITIONS, PARTITION_LAG),
    *(WATERMARK, WATERMARK_DELAY, EVENT_TIME_DELAY, STATE_ROWS, STATE_BYTES, FAILED_GROUP),
)

# Metrics of `tidemill metrics serve`.

_PIPELINE = ("pipeline",)

SNAPSHOT_AT = Metric(
    "tidemill_snapshot_timestamp_seconds", "Time of the last complete read of the storage.", ()
)
SNAPSHOT_SECONDS = Metric(
    "tidemill_snapshot_duration_seconds", "Duration of the last complete read of the storage.", ()
)
UNREADABLE = Metric(
    "tidemill_unreadable_pipelines", "Pipelines with documents on storage that could not be read.", ()
)
RECONCILED_AT = Metric(
    "tidemill_reconcile_timestamp_seconds", "Time at which the last reconciliation ended.", ()
)
RECONCILE_SECONDS = Metric("tidemill_reconcile_duration_seconds", "Duration of the last reconciliation.", ())
DECISIONS = Metric(
    "tidemill_reconcile_decisions", "Streams of the last reconciliation, by decision.", ("action",)
)
STREAMS = Metric(
    "tidemill_drivers", "Newest drivers of all pipelines, by the state that they last reported.", ("state",)
)
WANTED = Metric("tidemill_stream_wanted", "1 if the stream should run, 0 if not.", _PIPELINE)
RUNNING = Metric("tidemill_stream_running", "1 if a driver of the stream was seen, 0 if not.", _PIPELINE)
DECISION = Metric(
    "tidemill_stream_decision", "1 for the last decision about the stream.", ("pipeline", "action")
)
STALLED = Metric(
    "tidemill_stream_stalled", "1 if the stream should make progress and makes none, 0 if not.", _PIPELINE
)
BUDGET_LEFT = Metric(
    "tidemill_restart_budget_left", "Number of further crashes before the stream is held.", _PIPELINE
)
CRASHES = Metric("tidemill_restarts", "Crashes of the stream that count against its budget now.", _PIPELINE)
HOLDS = Metric("tidemill_holds", "Number of holds that forbid the pipeline's start.", _PIPELINE)
RETENTION = Metric(
    "tidemill_source_retention_seconds", "Retention of the source, as reported by its broker.", _PIPELINE
)
DATA_LOSS = Metric(
    "tidemill_time_to_data_loss_seconds",
    "Time until unread records may expire: the source's retention minus the time since everything was read "
    "(or since the last progress, if the pipeline has never read everything). Below 0 they may have expired.",
    _PIPELINE,
)
DATA_LOSS_LEVEL = Metric(
    "tidemill_data_loss_level",
    "1 for the current level: ok; warn, when half of the source's retention has passed; urgent, when three "
    "quarters have passed.",
    ("pipeline", "level"),
)
AIRFLOW_HEALTHY = Metric(
    "tidemill_airflow_component_healthy",
    "1 if Airflow reports its component as healthy; 0 if not, or if it does not answer (`api_server`).",
    ("component",),
)
AIRFLOW_HEARTBEAT = Metric(
    "tidemill_airflow_heartbeat_timestamp_seconds", "Last heartbeat of the component.", ("component",)
)

CONTROL_METRICS = (
    *(SNAPSHOT_AT, SNAPSHOT_SECONDS, UNREADABLE, RECONCILED_AT, RECONCILE_SECONDS, DECISIONS, STREAMS),
    *(WANTED, RUNNING, DECISION, STALLED, BUDGET_LEFT, CRASHES, HOLDS, RETENTION, DATA_LOSS, DATA_LOSS_LEVEL),
    *(AIRFLOW_HEALTHY, AIRFLOW_HEARTBEAT),
)

_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


class _Collector:
    """Passes samples to a registry, grouped into Prometheus metric families."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Family]:
        found: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for sample in self._samples:
            metric = sample.metric
            if metric.name not in found:
                found[metric.name] = _FAMILIES[metric.kind](metric.name, metric.about, labels=metric.labels)
            found[metric.name].add_metric(sample.labels, sample.value)
        return found.values()


def exposition(samples: Iterable[Sample]) -> str:
    """Return the samples as Prometheus text (exposition format 0.0.4), from a separate registry."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(list(samples)))
    return generate_latest(registry).decode()
