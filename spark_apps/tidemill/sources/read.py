"""Opening a pipeline's source: as a stream, or as a bounded batch of the past."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.errors import SpecError
from tidemill.ledger.entry import Positions
from tidemill.names import consumer_group_prefix
from tidemill.payload.source_columns import BATCH_TIME, BROKEN_LINE, FILE, FILE_TIME
from tidemill.sources.kafka_clients import kafka_client
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import DeltaSource, EventHubsSource, FilesSource, KafkaSource, StartingOffsets

SOURCE_NAME = "source"

# Age limit of files where none is wanted. Spark's default is a week: older files would be skipped unsaid.
_NO_LIMIT = timedelta(days=365_000)


def source_name(place: int) -> str:
    """Name in ledger entries of the source at a place in Spark's plan: `source`, `source.1`, and so on."""
    return SOURCE_NAME if place == 0 else f"{SOURCE_NAME}.{place}"


def read_stream(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The source as a stream, with what the door needs; Kafka records come with their lineage columns."""
    return _with_arrival(pipeline, _stream(spark, pipeline))


def _stream(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    source = pipeline.spec.source
    reader = spark.readStream
    if source.is_kafka:
        options = {**_kafka_options(pipeline), **_kafka_limits(source.chosen)}
        return with_lineage(reader.format("kafka").options(**options).load(), source.chosen.headers)
    if source.files is not None:
        options = {**_files_options(source.files), **_files_limits(source.files)}
        reader = reader.format(source.files.format).options(**options)
        if (schema := _files_schema(source.files)) is not None:
            reader = reader.schema(schema)
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
    spark: SparkSession,
    pipeline: Pipeline,
    start: Positions | None,
    end: Positions | None,
    version: int | None = None,
) -> DataFrame:
    """The source as a batch: Kafka between two positions (`end` exclusive), others as a whole.

    Args:
        spark: The session.
        pipeline: Whose source.
        start: First offsets.
        end: End offsets.
        version: Of the table that is read; the newest one by default.

    Raises:
        SpecError: TIDE-SPEC-040, if the source has no past.
    """
    return _with_arrival(pipeline, _batch(spark, pipeline, (start, end), version))


def _batch(
    spark: SparkSession,
    pipeline: Pipeline,
    offsets: tuple[Positions | None, Positions | None],
    version: int | None,
) -> DataFrame:
    source = pipeline.spec.source
    reader = spark.read
    if source.is_kafka:
        options = _kafka_options(pipeline)
        start, end = map(json.dumps, offsets)
        options |= {"startingOffsets": start, "endingOffsets": end}
        return with_lineage(reader.format("kafka").options(**options).load(), source.chosen.headers)
    if source.files is not None:
        reader = reader.format(source.files.format).options(**_files_options(source.files))
        if (schema := _files_schema(source.files)) is not None:
            reader = reader.schema(schema)
        return reader.load(files_path(pipeline, source.files))
    if source.delta is not None:
        reader = reader if version is None else reader.option("versionAsOf", version)
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


def _with_arrival(pipeline: Pipeline, records: DataFrame) -> DataFrame:
    """The records, with the columns by which some may be rejected."""
    columns = []
    if pipeline.spec.max_ahead is not None:
        columns.append(F.current_timestamp().alias(BATCH_TIME))
    if pipeline.spec.source.files is not None and pipeline.spec.rejects_records:
        columns.append(F.col("_metadata.file_path").alias(FILE))
        columns.append(F.col("_metadata.file_modification_time").alias(FILE_TIME))
    return records.select("*", *columns) if columns else records


def _files_schema(files: FilesSource) -> str | None:
    """Columns of the files, as DDL; lines that do not fit come whole in one more."""
    return f"{files.schema_}, `{BROKEN_LINE}` string" if files.has_lines else files.schema_


def _files_options(files: FilesSource) -> dict[str, str]:
    """Options of the format; a broken line becomes a row of its own, not nulls."""
    if not files.has_lines:
        return files.options
    lines = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN_LINE}
    # NaN and Infinity are not JSON.
    strict = {"allowNonNumericNumbers": "false"} if files.format == "json" else {}
    return {**strict, **files.options, **lines}


def _files_limits(files: FilesSource) -> dict[str, str]:
    """How a stream takes files."""
    age = _NO_LIMIT if isinstance(files.max_file_age, str) else files.max_file_age
    milliseconds = age // timedelta(milliseconds=1)
    limits = {"latestFirst": str(files.order == "newest").lower(), "maxFileAge": f"{milliseconds}ms"}
    if files.max_files_per_batch is not None:
        limits["maxFilesPerTrigger"] = str(files.max_files_per_batch)
    if files.max_bytes_per_batch is not None:
        limits["maxBytesPerTrigger"] = str(files.max_bytes_per_batch)
    return limits


def files_path(pipeline: Pipeline, files: FilesSource) -> str:
    """Folder of a files source: a URI as it stands, or below the storage root."""
    return pipeline.layout.folder(files.path)


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
    limits = _beginning(source.starting_offsets)
    if source.max_offsets_per_batch is not None:
        limits["maxOffsetsPerTrigger"] = str(source.max_offsets_per_batch)
    return limits


def _beginning(start: StartingOffsets) -> dict[str, str]:
    if not isinstance(start, datetime):
        return {"startingOffsets": start if isinstance(start, str) else json.dumps(start)}
    return {
        "startingTimestamp": str(int(start.timestamp() * 1000)),
        # A partition without a record since then starts at its end, not with an error.
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _delta_options(source: DeltaSource) -> dict[str, str]:
    options = dict(source.options)
    if source.starting_version is not None:
        options["startingVersion"] = str(source.starting_version)
    if source.starting_at is not None:
        options["startingTimestamp"] = source.starting_at.isoformat()
    if source.max_files_per_batch is not None:
        options["maxFilesPerTrigger"] = str(source.max_files_per_batch)
    if source.changes == "skip":
        options["skipChangeCommits"] = "true"
    return options
