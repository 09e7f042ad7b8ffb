"""Refusals that replace Spark's own: Spark 4.2 refuses the same, but later and with another message."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.lake import Lake
from tidemill.spec.capabilities import REFUSALS


def to_batches(writer: DataStreamWriter) -> DataStreamWriter:
    return writer.foreachBatch(lambda *_: None)


class Writer:
    """Takes rows."""

    def process(self, row: Row) -> None:
        """Take one."""


CONTINUOUS = {"continuous": "1 second"}
REAL_TIME = {"realTime": "5 minutes"}

# The refusal, what of the result, the trigger, the sink, and Spark's own words for it.
CASES: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("TIDE-MODE-005", "update", {}, "delta", "Update output mode"),
    ("TIDE-MODE-007", "update", {}, "parquet", "STREAMING_OUTPUT_MODE"),
    ("TIDE-MODE-007", "complete", {}, "parquet", "STREAMING_OUTPUT_MODE"),
    (
        "TIDE-MODE-013",
        "update",
        REAL_TIME,
        "console",
        "RateStreamMicroBatchStream is not supported",
    ),
    ("TIDE-MODE-014", "append", CONTINUOUS, "", "not supported with continuous trigger"),
    ("TIDE-MODE-014", "append", CONTINUOUS, "delta", "Unknown type of trigger: ContinuousTrigger"),
    ("TIDE-MODE-014", "append", CONTINUOUS, "parquet", "Unknown type of trigger: ContinuousTrigger"),
    ("TIDE-MODE-014", "update", REAL_TIME, "", "ForeachBatchSink is not in the sink allowlist"),
    ("TIDE-MODE-015", "update", REAL_TIME, "memory", "MemorySink is not in the sink allowlist"),
    ("TIDE-MODE-016", "append", REAL_TIME, "console", "OUTPUT_MODE_NOT_SUPPORTED"),
    ("TIDE-MODE-016", "complete", REAL_TIME, "console", "OUTPUT_MODE_NOT_SUPPORTED"),
    ("TIDE-MODE-019", "append", CONTINUOUS, "foreach", "CANNOT_GET_BATCH_ID"),
    ("TIDE-MODE-017", "complete", CONTINUOUS, "console", "does not support Aggregate operations"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[3]}")
def test_what_is_refused_in_spark_s_name_spark_refuses(
    lake: Lake, case: tuple[str, str, dict[str, Any], str, str]
) -> None:
    refusal, mode, trigger, sink, says = case
    assert refusal in {each.error_id for each in REFUSALS}
    rows = lake.spark.readStream.format("rate").load()
    result = rows.groupBy("value").count() if mode == "complete" else rows
    refused_by_spark(lake, result, mode, trigger, sink, says)


# Sources that Spark reads in batches only, and its words for that.
SOURCES = {
    "rate-micro-batch": "rate-micro-batch does not support continuous processing",
    "text": "does not support StreamingRelation operations",
    "delta": "does not support StreamingRelation operations",
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_is_refused_in_spark_s_name_spark_refuses(lake: Lake, source: str) -> None:
    folder = str(lake.folder / "source")
    lake.spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format(
        "delta" if source == "delta" else "text"
    ).save(folder)
    reader = lake.spark.readStream.format(source).option("rowsPerBatch", "1")
    rows = reader.load() if source == "rate-micro-batch" else reader.load(folder)
    refused_by_spark(lake, rows, "append", CONTINUOUS, "console", SOURCES[source])


def refused_by_spark(  # noqa: PLR0913  # what makes a query
    lake: Lake, result: DataFrame, mode: str, trigger: dict[str, Any], sink: str, says: str
) -> None:
    writer = result.writeStream.outputMode(mode).option("checkpointLocation", str(lake.folder / "checkpoint"))
    if sink == "foreach":
        writer = writer.foreach(Writer())
    else:
        writer = writer.format(sink).option("path", str(lake.folder / "out")) if sink else to_batches(writer)
    writer = writer.queryName("refused")
    try:
        with pytest.raises(Exception, match=says):  # of Python's or of the JVM's
            (writer.trigger(**trigger) if trigger else writer).start().awaitTermination(60)
    finally:
        for query in lake.spark.streams.active:
            query.stop()
