"""Columns with dots, umlauts and spaces in their names, wherever a pipeline file names a column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.commits import commit_of
from tests.support.lake import Lake
from tests.support.writer_cases import WriterCase
from tidemill.errors import SpecError
from tidemill.sinks.kafka_sink import records_of
from tidemill.spec.sinks import KafkaSink

COLUMNS = "`people.id` string, `Größe` int, v string, `seq.no` long, `op.x` string, people struct<id: string>"


def case_of(spark_case: WriterCase, **declaration: Any) -> WriterCase:
    return replace(spark_case, declaration=declaration)


def write(case: WriterCase, number: int, *rows: tuple[object, ...]) -> None:
    frame = case.frame(*((*row, ("other",)) for row in rows), columns=COLUMNS)
    assert case.writer(columns=COLUMNS).write(frame, commit_of(number)).committed


def values(case: WriterCase) -> list[tuple[Any, ...]]:
    return sorted((row["people.id"], row["Größe"], row["v"]) for row in case.rows())


def test_a_merge_finds_rows_by_columns_with_dots_and_umlauts(spark_case: WriterCase) -> None:
    case = case_of(spark_case, mode="merge", key=["people.id", "GRÖẞE"], cluster_by=["people.id"])
    write(case, 0, ("a", 1, "old", 1, "u"), ("a", 2, "stays", 1, "u"))
    write(case, 1, ("a", 1, "new", 2, "u"), ("b", 1, "more", 2, "u"))
    assert values(case) == [("a", 1, "new"), ("a", 2, "stays"), ("b", 1, "more")]


@pytest.mark.parametrize("mode", ["scd1", "scd2"])
def test_a_feed_is_ordered_by_a_column_with_a_dot(spark_case: WriterCase, mode: str) -> None:
    feed = {
        "sequence_by": "seq.no",
        "apply_as_deletes": "`op.x` = 'd'",
        "except_columns": ["op.x", "seq.no"],
    }
    case = case_of(spark_case, mode=mode, key=["people.id"], cdc=feed, cluster_by=["people.id"])
    write(case, 0, ("a", 1, "old", 1, "u"), ("b", 1, "gone", 1, "u"))
    write(case, 1, ("a", 1, "late", 0, "u"), ("b", 1, "", 9, "d"), ("a", 1, "new", 5, "u"))
    rows = [row for row in case.rows() if row["_deleted_at"] is None]
    if mode == "scd2":
        rows = [row for row in rows if row["is_current"]]
        intervals = {(row["v"], row["valid_from"], row["valid_to"]) for row in case.rows()}
        assert {("late", 0, 1), ("old", 1, 5), ("new", 5, None), ("gone", 1, 9)} <= intervals
    assert [(row["people.id"], row["v"], row["people"]) for row in rows] == [("a", "new", {"id": "other"})]
    assert not {"op.x", "seq.no"} & set(rows[0])


@pytest.mark.parametrize(
    ("layout", "partitions", "clusters"),
    [
        ({"partition_by": ["op.x", "größe"]}, ["op.x", "Größe"], []),
        ({"cluster_by": ["op.x", "people.id"]}, [], ["`op.x`", "`people.id`"]),
    ],
)
def test_a_table_is_laid_out_by_columns_with_dots(
    spark_case: WriterCase, layout: dict[str, Any], partitions: list[str], clusters: list[str]
) -> None:
    case = case_of(spark_case, **layout)
    write(case, 0, ("a", 1, "x", 1, "u"))
    write(case, 1, ("b", 2, "y", 1, "d"))
    assert values(case) == [("a", 1, "x"), ("b", 2, "y")]
    (detail,) = case.spark.sql(f"DESCRIBE DETAIL delta.`{case.path}`").collect()
    assert [name.lower() for name in detail["partitionColumns"]] == [name.lower() for name in partitions]
    assert detail["clusteringColumns"] == clusters


def test_a_field_of_a_struct_may_cluster_where_no_column_has_its_name(spark_case: WriterCase) -> None:
    columns = "id long, people struct<id: string>"
    case = case_of(spark_case, cluster_by=["people.id"])
    case.writer(columns=columns).write(case.frame((1, ("a",)), columns=columns), commit_of(0))
    (detail,) = case.spark.sql(f"DESCRIBE DETAIL delta.`{case.path}`").collect()
    assert detail["clusteringColumns"] == ["people.id"]


@pytest.mark.parametrize("name", ["un it", "a=b", "a``b"])
def test_columns_that_no_table_can_have_are_refused_by_name(case: WriterCase, name: str) -> None:
    with pytest.raises(SpecError) as refused:
        case.writer(columns=f"id long, `{name}` string")
    assert refused.value.error_id == "TIDE-SINK-023"
    assert refused.value.facts["columns"] == [name.replace("``", "`")]


@pytest.mark.parametrize(
    ("declaration", "key", "column"),
    [
        ({"mode": "merge", "key": ["people"]}, "key", "people"),
        ({"partition_by": ["people.id"]}, "partition_by", "people.id"),
        ({"cluster_by": ["people.id"]}, "cluster_by", "people.id"),
    ],
)
def test_a_column_that_the_rows_lack_is_refused_by_name_before_a_query(
    spark_case: WriterCase, declaration: dict[str, Any], key: str, column: str
) -> None:
    with pytest.raises(SpecError) as refused:
        case_of(spark_case, **declaration).writer(columns="id long, name string")
    assert refused.value.error_id == "TIDE-SINK-024"
    assert (refused.value.facts["key"], refused.value.facts["column"]) == (key, column)


@pytest.mark.parametrize("name", ["device.id", "device id", "device`id"])
def test_a_topic_is_keyed_by_a_column_whatever_is_in_its_name(spark: SparkSession, name: str) -> None:
    rows = spark.createDataFrame([("d1", 2)], "device string, v int").withColumnRenamed("device", name)
    (record,) = records_of(rows, KafkaSink(topic="out", key=name)).collect()
    assert record["key"] == "d1"


def test_events_with_a_dotted_time_are_checked_set_aside_and_computed_again(lake: Lake) -> None:
    """The event time in the watermark, among late rows, in a backfill's range and among expectations."""
    files = {"path": "landing", "format": "json", "schema": "`device.id` string, `at.t` timestamp"}
    windows = """
from pyspark.sql import functions as F

def transform(readings):
    counts = readings.groupBy(F.window("`at.t`", "5 minutes"), "`device.id`").count()
    return counts.select(F.col("window.start").alias("start.t"), "`device.id`", "count")
"""
    pipeline = lake.pipeline(
        "readings",
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at.t", "watermark": "10 minutes", "late": "table"},
        transform=lake.transform("readings", windows),
        sinks=[
            {
                "delta": {
                    "table": "silver/readings",
                    "time": "start.t",
                    "expectations": {
                        "named": {"expect": "`device.id` <> 'bad'", "on_violation": "quarantine"}
                    },
                }
            }
        ],
        run={"mode": "incremental"},
    )

    def land(number: int, *times: str, device: str = "d") -> None:
        rows = [{"device.id": device, "at.t": f"2024-01-01T{time}:00Z"} for time in times]
        lake.land_rows(f"landing/{number}.json", rows)

    land(0, "00:01", "00:02", "00:06")
    land(1, "01:00")
    land(2, "02:00")
    land(3, "00:01")
    land(4, "03:00", device="bad")
    land(5, "04:00", device="bad")
    pipeline.run_incremental()

    def rows() -> list[tuple[str, str, int]]:
        found = lake.rows("silver/readings")
        return sorted((row["start.t"].strftime("%H:%M"), row["device.id"], row["count"]) for row in found)

    live = rows()
    assert live == [("00:00", "d", 2), ("00:05", "d", 1), ("01:00", "d", 1), ("02:00", "d", 1)]
    assert [row["event_time"].strftime("%H:%M") for row in lake.late("readings")] == ["00:01"]
    assert [row["reason"] for row in lake.quarantined("readings")] == ["expectation:silver/readings:named"]
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/silver/readings` WHERE `count` = 1").collect()
    pipeline.backfill("2024-01-01T00:00Z", "2024-01-01T03:00Z")
    # The late event is in time for a backfill.
    assert rows() == [("00:00", "d", 3), *live[1:]]
