"""Opening a pipeline's source: as a stream, or as a bounded batch of the past."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.errors import SpecError
from tidemill.names import consumer_group_prefix
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import Positions
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import DeltaSource, EventHubsSource, FilesSource, KafkaSource, StartingOffsets

SOURCE_NAME = "source"


def source_name(place: int) -> str:
    """Name in ledger entries of the source at a place in Spark's plan: `source`, `source.1`, and so on."""
    return SOURCE_NAME if place == 0 else f"{SOURCE_NAME}.{place}"


def read_stream(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The source as a stream; Kafka records come with their lineage columns."""
    source = pipeline.spec.source
    reader = spark.readStream
    if source.is_kafka:
        options = {**_kafka_options(pipeline), **_kafka_limits(source.chosen)}
        return with_lineage(reader.format("kafka").options(**options).load(), source.chosen.headers)
    if source.files is not None:
        options = {**source.files.options, "latestFirst": str(source.files.order == "newest").lower()}
        if source.files.max_files_per_batch is not None:
            options["maxFilesPerTrigger"] = str(source.files.max_files_per_batch)
        reader = reader.format(source.files.format).options(**options)
        if source.files.schema_ is not None:
            reader = reader.schema(source.files.schema_)
        return reader.load(files_path(pipeline, source.files))
    if source.delta is not None:
        return (
            reader.format("delta")
            .options(**_delta_options(source.delta))
            .load(pipeline.layout.table(source.delta.table))
        )
    if source.rate is not None:
        return reader.format("rate").option("rowsPerSecond", source.rate.rows_per_second).load()
    rows = source.rate_per_batch.rows_per_batch if source.rate_per_batch else 0
    return reader.format("rate-micro-batch").option("rowsPerBatch", rows).load()


def read_batch(
    spark: SparkSession, pipeline: Pipeline, start: Positions | None, end: Positions | None
) -> DataFrame:
    """The source as a batch: Kafka between two positions (`end` exclusive), others as a whole.

    Raises:
        SpecError: TIDE-SPEC-040, if the source has no past.
    """
    source = pipeline.spec.source
    reader = spark.read
    if source.is_kafka:
        options = _kafka_options(pipeline)
        options |= {"startingOffsets": _positions(start), "endingOffsets": _positions(end)}
        return with_lineage(reader.format("kafka").options(**options).load(), source.chosen.headers)
    if source.files is not None:
        reader = reader.format(source.files.format).options(**source.files.options)
        if source.files.schema_ is not None:
            reader = reader.schema(source.files.schema_)
        return reader.load(files_path(pipeline, source.files))
    if source.delta is not None:
        return reader.format("delta").load(pipeline.layout.table(source.delta.table))
    raise SpecError(
        "TIDE-SPEC-040",
        "This source has no past to read.",
        facts={"pipeline": pipeline.name, "source": source.kind},
        fix="backfill a pipeline that reads kafka, eventhubs, files or delta",
    )


def with_lineage(records: DataFrame, headers: bool) -> DataFrame:
    """Kafka's columns under names that cannot be taken for payload columns."""
    lineage = ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if headers else [])]
    return records.select(*(F.col(name).alias(f"kafka_{name}") for name in lineage))


def files_path(pipeline: Pipeline, files: FilesSource) -> str:
    """Folder of a files source: a URI as it stands, or below the storage root."""
    return files.path if "://" in files.path else f"{pipeline.layout.root}/{files.path}"


def _kafka_options(pipeline: Pipeline) -> dict[str, str]:
    source = pipeline.spec.source.chosen
    return {
        **source.options,
        **kafka_client(pipeline).spark_options(),
        **_subscription(source),
        "groupIdPrefix": consumer_group_prefix(pipeline.name),
        "includeHeaders": str(source.headers).lower(),
        # Never false: records that the broker no longer has would be skipped without a word.
        "failOnDataLoss": "true",
    }


def _subscription(source: KafkaSource | EventHubsSource) -> dict[str, str]:
    if isinstance(source, EventHubsSource):
        return {"subscribe": source.hub}
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    if source.assign is not None:
        return {"assign": json.dumps(source.assign)}
    return {"subscribe": source.topic or ",".join(source.topics or [])}


def _kafka_limits(source: KafkaSource | EventHubsSource) -> dict[str, str]:
    limits = {"startingOffsets": _positions(source.starting_offsets)}
    if source.max_offsets_per_batch is not None:
        limits["maxOffsetsPerTrigger"] = str(source.max_offsets_per_batch)
    return limits


def _positions(positions: StartingOffsets | Positions | None) -> str:
    return positions if isinstance(positions, str) else json.dumps(positions)


def _delta_options(source: DeltaSource) -> dict[str, str]:
    options = dict(source.options)
    if source.starting_version is not None:
        options["startingVersion"] = str(source.starting_version)
    if source.max_files_per_batch is not None:
        options["maxFilesPerTrigger"] = str(source.max_files_per_batch)
    if source.changes == "skip":
        options["skipChangeCommits"] = "true"
    return options
