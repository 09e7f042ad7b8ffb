"""Pins every metric: dashboards and alerts of users depend on them."""

from __future__ import annotations

import re

import pytest

from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS, OF_DRIVER, Metric, Sample, exposition

EVERY = (*DRIVER_METRICS, *CONTROL_METRICS)

# A name that goes from here is a change that users must hear of: CHANGELOG, "Behaviour changes".
DRIVER = """
batch_duration_seconds batch_id batch_part_duration_seconds{part} batches_total epoch event_time_delay_seconds
expectation_violations_total{table,expectation} input_rows_per_second lag_max_records lag_records
last_commit_timestamp_seconds last_progress_timestamp_seconds last_sign_timestamp_seconds late_rows_total
metrics_failed{group} no_event_time_rows_total output_rows_total{output}
partition_lag_records{topic,partition}
processed_rows_per_second progress_within_seconds quarantined_rows_total rows_total
sink_duration_seconds{output} source_partitions
start_timestamp_seconds state_memory_bytes{operator} state_rows{operator} trigger_interval_seconds
watermark_delay_seconds watermark_timestamp_seconds
"""
CONTROL = """
airflow_component_healthy{component} airflow_heartbeat_timestamp_seconds{component}
data_loss_level{pipeline,level} drivers{state} holds{pipeline} reconcile_decisions{action}
reconcile_duration_seconds reconcile_timestamp_seconds restart_budget_left{pipeline}
restarts{pipeline} snapshot_duration_seconds snapshot_timestamp_seconds
source_retention_seconds{pipeline} stream_decision{pipeline,action} stream_running{pipeline}
stream_stalled{pipeline} stream_wanted{pipeline} time_to_data_loss_seconds{pipeline}
unreadable_pipelines
"""


def written(metric: Metric, common: tuple[str, ...] = ()) -> str:
    labels = ",".join(metric.labels[len(common) :])
    return metric.name.removeprefix("tidemill_") + (f"{{{labels}}}" if labels else "")


def test_drivers_have_these_metrics() -> None:
    assert sorted(written(metric, OF_DRIVER) for metric in DRIVER_METRICS) == DRIVER.split()
    assert {metric.labels[:2] for metric in DRIVER_METRICS} == {OF_DRIVER}


def test_the_control_plane_has_these_metrics() -> None:
    assert sorted(written(metric) for metric in CONTROL_METRICS) == CONTROL.split()


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_asks(metric: Metric) -> None:
    assert re.fullmatch(r"tidemill_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.about.endswith(".")


def test_no_two_metrics_share_a_name() -> None:
    assert len({metric.name for metric in EVERY}) == len(EVERY)


def test_each_metric_stands_on_a_page_once_however_its_samples_come() -> None:
    first, second = DRIVER_METRICS[:2]
    samples = [Sample(metric, 1, (pipeline, "stream")) for pipeline in "ab" for metric in (first, second)]
    lines = exposition(samples).splitlines()
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [first.name, second.name]
    assert len([line for line in lines if not line.startswith("#")]) == 4
