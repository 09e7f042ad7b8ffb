"""Files of rejected records: a task's own when it runs again, never one that an earlier start committed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.declared import declared
from tests.support.lake import Lake
from tidemill.engine.classify import classify
from tidemill.errors import DataError
from tidemill.payload.decode import payload_decoding
from tidemill.payload.quarantine import Quarantine
from tidemill.spec.project import Pipeline

RECORDS = (
    "kafka_key binary, kafka_value binary, kafka_topic string, kafka_partition int, kafka_offset long, "
    "kafka_timestamp timestamp"
)
ARRIVED = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def pipeline(lake: Lake) -> Pipeline:
    return declare(lake)


def declare(lake: Lake, **payload: Any) -> Pipeline:
    schema = lake.schema("order.json", {"id": {"type": "integer"}})
    return declared(lake.folder, "orders", payload={"json": {"schema": schema, **payload}})


def decoded(
    spark: SparkSession, pipeline: Pipeline, quarantine: Quarantine, *values: bytes | None
) -> DataFrame:
    """Return the records on two partitions, through the pipeline's decoding."""
    assert pipeline.spec.payload is not None
    rows = [(None, value, "orders", 0, offset, ARRIVED) for offset, value in enumerate(values)]
    records = spark.createDataFrame(rows, RECORDS).repartition(2, "kafka_offset")
    decoding = payload_decoding(pipeline, pipeline.spec.payload, quarantine)
    return records.mapInArrow(decoding.stage, decoding.spark_schema)


def test_good_records_become_rows_and_the_others_files(
    lake: Lake, spark: SparkSession, pipeline: Pipeline
) -> None:
    quarantine = Quarantine.at(spark.sparkContext, str(lake.root / "quarantine/orders"), "run-1")
    rows = decoded(
        spark, pipeline, quarantine, b'{"id": 1}', b"{", None, b'{"id": "x"}', b'{"id": 5}'
    ).collect()
    assert sorted((row["id"], row["kafka_offset"]) for row in rows) == [(1, 0), (5, 4)]
    parts = quarantine.take()
    rejected = [row for part in parts for row in pq.read_table(f"{quarantine.path}/{part.name}").to_pylist()]
    assert {row["offset"]: row["value"] for row in rejected} == {
        1: b"{",
        2: None,
        3: b'{"id": "x"}',
    }
    assert {(row["topic"], row["arrived_at"], row["run_id"]) for row in rejected} == {
        ("orders", ARRIVED, "run-1")
    }
    assert all(row["reason"] for row in rejected)
    assert sum(part.rows for part in parts) == 3
    assert quarantine.take() == []


def test_records_without_a_value_are_rows_where_they_delete_a_key(lake: Lake, spark: SparkSession) -> None:
    quarantine = Quarantine.at(spark.sparkContext, str(lake.root / "quarantine/orders"), "run-1")
    rows = decoded(spark, declare(lake, tombstones="keep"), quarantine, b'{"id": 1}', None, b"null").collect()
    assert sorted((row["kafka_offset"], row["id"]) for row in rows) == [(0, 1), (1, None)]
    assert sum(part.rows for part in quarantine.take()) == 1


def test_records_read_twice_in_one_batch_are_rejected_once(
    lake: Lake, spark: SparkSession, pipeline: Pipeline
) -> None:
    quarantine = Quarantine.at(spark.sparkContext, str(lake.root / "quarantine/orders"), "run-1")
    frame = decoded(spark, pipeline, quarantine, b"{", b"[", b"")
    frame.collect()
    frame.collect()
    parts = quarantine.take()
    assert sum(part.rows for part in parts) == 3
    # No file was replaced. Of an attempt on a lost executor and its retry, one is reported and both are
    # complete.
    assert all((lake.root / "quarantine/orders" / part.name).stat().st_size == part.size for part in parts)
    assert len(list((lake.root / "quarantine/orders").glob("*.parquet"))) == 2 * len(parts)


def test_a_later_start_of_the_same_run_leaves_the_files_of_the_earlier_one(
    lake: Lake, spark: SparkSession, pipeline: Pipeline
) -> None:
    """The earlier start may have committed them, with their sizes, before the batch had to be repeated."""
    names = set()
    for _ in range(2):
        quarantine = Quarantine.at(spark.sparkContext, str(lake.root / "quarantine/orders"), "run-1")
        decoded(spark, pipeline, quarantine, b"{").collect()
        names |= {part.name for part in quarantine.take()}
    assert len(names) == 2


def test_a_record_that_must_not_be_invalid_stops_the_batch_with_its_place(
    lake: Lake, spark: SparkSession
) -> None:
    strict = declare(lake, on_invalid="fail")
    quarantine = Quarantine.at(spark.sparkContext, str(lake.root / "quarantine/orders"), "run-1")
    with pytest.raises(Exception, match="TIDE-DATA-001") as failed:
        decoded(spark, strict, quarantine, b'{"id": 1}', b"{").collect()
    error = classify(failed.value)
    assert (type(error), error.error_id) == (DataError, "TIDE-DATA-001")
    assert {name: error.facts[name] for name in ("topic", "partition", "offset")} == {
        "topic": "orders",
        "partition": "0",
        "offset": "1",
    }
    assert quarantine.take() == []
