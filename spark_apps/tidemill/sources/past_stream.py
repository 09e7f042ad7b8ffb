"""The past of a topic or hub, as a stream of one batch, which a warm start reads first.

Its offsets have the format of Kafka's source, so that Kafka's source can continue in the same checkpoint.
None of Spark's own sources can read an archive by partition and number, or end at a given offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tidemill.capture.archive import Slice
from tidemill.checkpoint.warm_start import WarmStart
from tidemill.ledger.entry import Positions
from tidemill.sources.archived_events import COLUMNS, archived_rows, ddl_of, in_batches
from tidemill.sources.broker_records import BrokerRange, broker_rows
from tidemill.sources.kafka_clients import kafka_client
from tidemill.spec.project import Pipeline

_FORMAT = "tidemill_past"

Rows = Callable[[Slice | BrokerRange], Iterator[dict[str, Any]]]


def past_stream(spark: SparkSession, pipeline: Pipeline, warm: WarmStart) -> DataFrame:
    """Return the whole past as one batch, in the columns of the pipeline's source."""
    headers = pipeline.spec.source.reads_headers
    columns = pa.schema([field for field in COLUMNS if headers or field.name != "kafka_headers"])
    spark.dataSource.register(_source(_parts_of(warm), warm, columns, _rows_of(pipeline, warm)))
    return spark.readStream.format(_FORMAT).load()


def _source(
    parts: list[Slice | BrokerRange], warm: WarmStart, columns: pa.Schema, rows_of: Rows
) -> type[DataSource]:
    """Return a source class for Spark; a local class, because its secrets must not be in options."""

    class PastReader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
            return dict(warm.start)

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
            return dict(warm.end)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [] if start == end else [InputPartition(part) for part in parts]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return in_batches(rows_of(partition.value), columns)

    class Past(DataSource):
        @classmethod
        def name(cls) -> str:
            return _FORMAT

        def schema(self) -> str:
            return ddl_of(columns)

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
            return PastReader()

    return Past


def _parts_of(warm: WarmStart) -> list[Slice | BrokerRange]:
    """Return a task for each slice of the archive, and for the broker's part of each partition."""
    slices = () if warm.archive is None else warm.archive.slices
    return [*slices, *_ranges(warm.join, warm.end)]


def _ranges(start: Positions, end: Positions) -> Iterator[BrokerRange]:
    for topic, partitions in start.items():
        for number, first in partitions.items():
            if first < end[topic][number]:
                yield BrokerRange(topic, int(number), first, end[topic][number])


def _rows_of(pipeline: Pipeline, warm: WarmStart) -> Rows:
    client = kafka_client(pipeline)
    config = {**client.librdkafka_config(), "isolation.level": client.isolation or "read_committed"}
    archived = None if warm.archive is None else archived_rows(pipeline)

    def rows(part: Slice | BrokerRange) -> Iterator[dict[str, Any]]:
        if isinstance(part, Slice):
            return iter(()) if archived is None else archived(part)
        return broker_rows(config, part)

    return rows
