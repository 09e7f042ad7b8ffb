"""A driver's metrics, of what Spark says of its batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.scraped import scraped
from tests.support.spark_progress import PROGRESS, report_of
from tidemill.checkpoint.status import Status
from tidemill.engine.driver_metrics import DriverFacts, driver_samples
from tidemill.engine.lag import MOST_PARTITIONS
from tidemill.metrics import exposition

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ORDERS = ("orders", "stream")


def facts(progress: dict[str, Any] = PROGRESS, pipeline: str = "orders", **status: Any) -> DriverFacts:
    said = Status(
        pipeline=pipeline,
        mode="stream",
        state="running",
        started_at=NOW,
        updated_at=NOW,
        **{"run_id": "r", "lag": 110, "watermark": NOW - timedelta(minutes=11), **status},
    )
    return DriverFacts(said, NOW, report_of(pipeline, NOW, progress))


def values(*drivers: DriverFacts) -> dict[tuple[str, ...], float]:
    return scraped(exposition(sample for driver in drivers for sample in driver_samples(driver)))


def test_what_spark_measured_of_the_newest_batch_is_told() -> None:
    told = values(facts())
    assert told["tidemill_input_rows_per_second", *ORDERS] == 50.5
    assert told["tidemill_processed_rows_per_second", *ORDERS] == 210
    assert told["tidemill_batch_part_duration_seconds", *ORDERS, "addBatch"] == 0.9
    assert told["tidemill_batch_part_duration_seconds", *ORDERS, "walCommit"] == 0.03
    assert ("tidemill_batch_part_duration_seconds", *ORDERS, "triggerExecution") not in told
    assert told["tidemill_sink_duration_seconds", *ORDERS, "bronze/orders"] == 0.85
    assert told["tidemill_event_time_delay_seconds", *ORDERS] == 30
    assert told["tidemill_watermark_delay_seconds", *ORDERS] == 660


def test_state_is_told_of_each_operator_also_of_two_of_one_name() -> None:
    told = values(facts())
    assert {key[3]: value for key, value in told.items() if key[0] == "tidemill_state_rows"} == {
        "0:stateStoreSave": 12,
        "1:stateStoreSave": 3,
    }
    assert told["tidemill_state_memory_bytes", *ORDERS, "0:stateStoreSave"] == 4096


def test_lag_is_told_of_each_partition_and_of_the_worst() -> None:
    told = values(facts())
    assert {key[3:]: value for key, value in told.items() if key[0] == "tidemill_partition_lag_records"} == {
        ("orders", "0"): 5,
        ("orders", "1"): 100,
        ("orders", "2"): 5,
    }
    assert told["tidemill_lag_max_records", *ORDERS] == 100
    assert told["tidemill_source_partitions", *ORDERS] == 3
    assert told["tidemill_lag_records", *ORDERS] == 110


def test_of_a_thousand_partitions_the_worst_are_told() -> None:
    latest = {str(number): number for number in range(1000)}
    source = {"endOffset": {"orders": dict.fromkeys(latest, 0)}, "latestOffset": {"orders": latest}}
    told = values(facts({"sources": [source]}, lag=sum(latest.values())))
    each = [value for key, value in told.items() if key[0] == "tidemill_partition_lag_records"]
    assert sorted(each) == list(range(1000 - MOST_PARTITIONS, 1000))
    assert told["tidemill_lag_max_records", *ORDERS] == 999
    assert told["tidemill_source_partitions", *ORDERS] == 1000


def test_a_source_that_was_found_empty_since_has_no_lag_in_any_partition() -> None:
    told = values(facts(lag=0))
    assert {value for key, value in told.items() if key[0].endswith(("lag_records", "lag_max_records"))} == {
        0
    }


def test_violations_are_told_by_table_and_expectation() -> None:
    told = values(facts(expectation_violations={"silver/orders": {"plausible": 3, "has_id": 1}}))
    violations = {key[3:]: v for key, v in told.items() if key[0] == "tidemill_expectation_violations_total"}
    assert violations == {("silver/orders", "plausible"): 3, ("silver/orders", "has_id"): 1}


def test_another_drivers_query_is_not_told_as_this_ones() -> None:
    told = values(facts(run_id="newer"))
    assert ("tidemill_processed_rows_per_second", *ORDERS) not in told
    assert ("tidemill_sink_duration_seconds", *ORDERS, "bronze/orders") not in told


@pytest.mark.parametrize(
    ("group", "damage"),
    [
        ("batch", {"durationMs": {"addBatch": "soon"}}),
        ("lag", {"sources": [{"endOffset": {"orders": {"0": "x"}}, "latestOffset": {"orders": {"0": 1}}}]}),
        ("event_time", {"timestamp": "yesterday"}),
        ("state", {"stateOperators": 5}),
    ],
)
def test_a_group_that_cannot_be_computed_leaves_the_others_and_other_pipelines_alone(
    group: str, damage: dict[str, Any]
) -> None:
    told = values(facts({**PROGRESS, **damage}), facts(pipeline="returns"))
    assert {key[3]: v for key, v in told.items() if key[0] == "tidemill_metrics_failed"} == {group: 1}
    whole = values(facts(pipeline="returns"))
    assert {key: value for key, value in told.items() if key[1] == "returns"} == whole
    assert told["tidemill_processed_rows_per_second", *ORDERS] == 210


def test_hostile_names_stay_within_their_label() -> None:
    name = 'kafka:a"b\\c\nd{} 1'
    told = values(facts(rows_by_output={name: 1}))
    assert told["tidemill_output_rows_total", *ORDERS, name] == 1
