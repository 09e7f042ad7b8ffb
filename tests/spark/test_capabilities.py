"""Refusals that stand in for Spark's own: Spark 4.2 refuses the same, later and in other words."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.lake import Lake
from tidemill.spec.capabilities import REFUSALS


def to_batches(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.foreachBatch(lambda *_: None)


# The refusal, what of the result, the trigger, the sink, and Spark's own words for it.
CASES: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("TIDE-MODE-005", "update", {}, "delta", "Update output mode"),
    ("TIDE-MODE-007", "update", {}, "parquet", "STREAMING_OUTPUT_MODE"),
    ("TIDE-MODE-007", "complete", {}, "parquet", "STREAMING_OUTPUT_MODE"),
    ("TIDE-MODE-012", "append", {"continuous": "1 second"}, "", "not supported with continuous trigger"),
    ("TIDE-MODE-013", "update", {"realTime": "5 minutes"}, "", "STREAMING_REAL_TIME_MODE"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_is_refused_in_spark_s_name_spark_refuses(
    lake: Lake, case: tuple[str, str, dict[str, Any], str, str]
) -> None:
    refusal, mode, trigger, sink, says = case
    assert refusal in {each.error_id for each in REFUSALS}
    rows = rows_of(lake.spark)
    result = rows.groupBy("value").count() if mode == "complete" else rows
    writer = result.writeStream.outputMode(mode).option("checkpointLocation", str(lake.folder / "checkpoint"))
    writer = writer.format(sink).option("path", str(lake.folder / "out")) if sink else to_batches(writer)
    with pytest.raises(Exception, match=says):  # of Python's or of the JVM's
        (writer.trigger(**trigger) if trigger else writer).start()
    assert lake.spark.streams.active == []


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()
