"""Writing a batch to a topic: at least once, because a repeated batch sends its rows again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemill.sources.kafka_clients import KafkaClient
from tidemill.spec.sinks import KafkaSink


def send_rows(frame: DataFrame, sink: KafkaSink, client: KafkaClient) -> None:
    """Send each row as one JSON object, keyed by the sink's key column."""
    records = frame.select(F.to_json(F.struct("*")).alias("value"))
    if sink.key is not None:
        records = frame.select(
            F.col(sink.key).cast("string").alias("key"), F.to_json(F.struct("*")).alias("value")
        )
    (
        records.write.format("kafka")
        .options(**sink.options)
        .options(**client.spark_options())
        .option("topic", sink.topic)
        .save()
    )
