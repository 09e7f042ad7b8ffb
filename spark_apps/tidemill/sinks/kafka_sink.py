"""Write a batch to a topic, at least once, because a repeated batch sends its rows again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemill.sinks.counted_rows import CountedRows
from tidemill.sinks.table_columns import lacking_column
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.spec.column_names import column_named, quoted
from tidemill.spec.sinks import KafkaSink


def check_key(sink: KafkaSink, columns: pa.Schema) -> None:
    """Raise an error for a sink whose key is not a column of its rows.

    Raises:
        SpecError: TIDE-SINK-024.
    """
    if sink.key is not None and column_named(sink.key, columns.names) is None:
        raise lacking_column({"topic": sink.topic}, "key", sink.key, columns)


def send_rows(frame: DataFrame, sink: KafkaSink, client: KafkaClient) -> int:
    """Send each row as one record; return their number.

    `DataFrameWriter.save` calls the same method. Called directly, Spark runs the given plan unchanged, so its
    count can be read.
    """
    session: Any = frame.sparkSession
    jvm, records = session._jvm, CountedRows(records_of(frame, sink))
    options = jvm.PythonUtils.toScalaMap(producer_options(sink, client))
    jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider().createRelation(
        session._jsparkSession.sqlContext(),
        jvm.org.apache.spark.sql.SaveMode.Append,
        options,
        records.frame._jdf,
    )
    return records.count


def records_of(frame: DataFrame, sink: KafkaSink) -> DataFrame:
    """Return each row as one JSON object, keyed by the sink's key column."""
    value = F.to_json(F.struct("*")).alias("value")
    if sink.key is None:
        return frame.select(value)
    return frame.select(F.col(quoted(sink.key)).cast("string").alias("key"), value)


def producer_options(sink: KafkaSink, client: KafkaClient) -> dict[str, str]:
    """Return the options of Spark's Kafka writer."""
    return {**sink.options, **client.spark_options(), "topic": sink.topic}
