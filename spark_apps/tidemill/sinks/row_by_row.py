"""Sinks that Spark itself writes, row by row, for triggers without foreachBatch. All at least once."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemill.sinks.foreach_sink import wants_rows
from tidemill.sinks.kafka_sink import producer_options, records_of
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.spec.sinks import ConsoleSink, KafkaSink


def to_topic(rows: DataFrame, sink: KafkaSink, client: KafkaClient) -> DataStreamWriter:
    """Return a writer that sends each row as one record as soon as it arrives."""
    writer = records_of(rows, sink).writeStream.format("kafka")
    return writer.options(**producer_options(sink, client))


def to_console(rows: DataFrame, sink: ConsoleSink) -> DataStreamWriter:
    """Return Spark's own console writer, which shows rows at each note of the checkpoint."""
    return rows.writeStream.format("console").option("numRows", str(sink.rows)).option("truncate", "false")


def to_writer(rows: DataFrame, writer: type) -> DataStreamWriter:
    """Return a writer that passes each row to a user's writer, one per task."""
    # Spark copies this object with open, process and close into each task.
    return rows.writeStream.foreach(_TaskWriter(writer))


class _TaskWriter:
    """Creates the writer of a task, and checks that its `open` returns a bool."""

    def __init__(self, writer: type) -> None:
        self._writer = writer
        self._handler: Any = None

    def open(self, partition_id: int, batch_id: int) -> bool:
        """Return True if the rows are wanted."""
        self._handler = self._writer()
        return wants_rows(self._handler, partition_id, batch_id)

    def process(self, row: Row) -> None:
        """Process a row."""
        self._handler.process(row)

    def close(self, error: BaseException | None) -> None:
        """Close the user's writer."""
        if hasattr(self._handler, "close"):
            self._handler.close(error)
