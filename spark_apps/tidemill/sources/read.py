"""Opening a pipeline's source: as a stream, or as a bounded batch of the past."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from tidemill.capture.archive import Archive
from tidemill.checkpoint.warm_start import WarmStart
from tidemill.errors import SpecError
from tidemill.ledger.entry import Positions
from tidemill.names import SOURCE_NAME, consumer_group_prefix
from tidemill.payload.source_columns import BATCH_TIME, BROKEN_LINE, FILE, FILE_TIME, LINE
from tidemill.sources.archived_events import read_archived
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.past_files import base_path, files_path, read_past_files
from tidemill.sources.past_stream import past_stream
from tidemill.sources.stream_names import tell_of_names
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import (
    DeltaSource,
    EventHubsSource,
    FilesSource,
    KafkaSource,
    RatePerBatchSource,
    RateSource,
    SocketSource,
    StartingOffsets,
)

# Age limit of files where none is wanted. Spark's default is a week: older files would be skipped unsaid.
_NO_LIMIT = timedelta(days=365_000)


def read_streams(
    spark: SparkSession,
    pipeline: Pipeline,
    start: Positions | None = None,
    past: WarmStart | None = None,
) -> dict[str, DataFrame]:
    """Each stream by its name, with what the door needs; Kafka records come with their lineage columns.

    Several have their names in the checkpoint, too.

    Args:
        spark: The session.
        pipeline: What reads them.
        start: First offsets of the one stream in the place of the declared ones, where it has read nothing.
        past: What the one stream is instead, at a warm start.
    """
    if past is not None:
        return {SOURCE_NAME: _with_arrival(pipeline, past_stream(spark, pipeline, past))}
    named = pipeline.spec.has_named_streams
    tell_of_names(spark, named=named)
    if not named:
        return {SOURCE_NAME: _with_arrival(pipeline, _stream(spark.readStream, pipeline, start))}
    return {
        name: _with_arrival(stream, _stream(spark.readStream.name(name), stream))
        for name, stream in pipeline.streams.items()
    }


def _stream(reader: DataStreamReader, pipeline: Pipeline, start: Positions | None = None) -> DataFrame:
    source = pipeline.spec.source
    if source.is_kafka:
        options = _kafka_options(pipeline, _subscription(source.chosen)) | _kafka_limits(source.chosen, start)
        return with_lineage(reader.format("kafka").options(**options).load(), source.reads_headers)
    if source.files is not None:
        options = {**_files_options(source.files), **_files_limits(source.files)}
        options |= base_path(pipeline, source.files)
        reader = reader.format(spark_format(source.files)).options(**options)
        if (schema := _files_schema(source.files)) is not None:
            reader = reader.schema(schema)
        return _as_bytes(reader.load(files_path(pipeline, source.files)), source.files)
    if source.delta is not None:
        return (
            reader.format("delta")
            .options(**_delta_options(source.delta))
            .load(pipeline.layout.table(source.delta.table))
        )
    if source.rate is not None:
        return reader.format("rate").options(**_rate_options(source.rate)).load()
    if source.socket is not None:
        return reader.format("socket").options(**_socket_options(source.socket)).load()
    return reader.format("rate-micro-batch").options(**_rate_per_batch_options(source.chosen)).load()


@dataclass(frozen=True)
class Past:
    """What of a source is read as a batch.

    Args:
        start: First offsets, of a topic.
        end: End offsets, exclusive.
        version: Of the table that is read; the newest one by default.
        archive: Where older events of a hub are read.
        files: Names of the files that are read, below the source's folder; None for all.
    """

    start: Positions | None = None
    end: Positions | None = None
    version: int | None = None
    archive: Archive | None = None
    files: frozenset[str] | None = None


def read_batch(spark: SparkSession, pipeline: Pipeline, past: Past) -> DataFrame:
    """The source as a batch: Kafka between two positions, others as a whole.

    Raises:
        SpecError: TIDE-SPEC-040, if the source has no past.
    """
    files = pipeline.spec.source.files
    if files is not None:
        return read_past_files(pipeline, files, partial(_files, spark, pipeline), past.files)
    return _with_arrival(pipeline, _batch(spark, pipeline, past))


def _files(spark: SparkSession, pipeline: Pipeline, path: str) -> DataFrame:
    """Files as a batch, as a stream would have them."""
    files = pipeline.spec.source.chosen
    reader = spark.read.format(spark_format(files)).options(**_files_options(files))
    schema = _files_schema(files)
    records = (reader if schema is None else reader.schema(schema)).load(path)
    return _with_arrival(pipeline, _as_bytes(records, files))


def _batch(spark: SparkSession, pipeline: Pipeline, past: Past) -> DataFrame:
    source = pipeline.spec.source
    reader = spark.read
    if source.is_kafka:
        return _range(spark, pipeline, past)
    if source.delta is not None:
        reader = reader if past.version is None else reader.option("versionAsOf", past.version)
        return reader.format("delta").load(pipeline.layout.table(source.delta.table))
    raise SpecError(
        "TIDE-SPEC-040",
        "This source has no past to read.",
        facts={"pipeline": pipeline.name, "source": source.kind},
        fix="backfill a pipeline that reads kafka, eventhubs, iothub, files or delta",
    )


def _range(spark: SparkSession, pipeline: Pipeline, past: Past) -> DataFrame:
    """Records between two positions, from the archive of a hub as far as it is said to have them."""
    source, start, end = pipeline.spec.source, past.start or {}, past.end or {}
    archived = None
    if past.archive is not None:
        slices = past.archive.between(start, end)
        archived = read_archived(spark, pipeline, slices) if slices else None
        start = past.archive.from_hub(start)
        # Where the range ends before the hub's part begins, nothing is read there.
        end = past.archive.from_hub(end)
    options = _kafka_options(pipeline, _partitions_of(end) if end else _subscription(source.chosen))
    options |= {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    records = with_lineage(spark.read.format("kafka").options(**options).load(), source.reads_headers)
    return records if archived is None else records.unionByName(archived)


def plain_lines(spark: SparkSession, paths: list[str], cut: dict[str, str]) -> DataFrame:
    """Lines of these files, as Spark cuts them; a name may hold `[1]` or `*`, which mean nothing else."""
    # Not `.text(…)`, whose own arguments would win over these options.
    return spark.read.format("text").options(**cut, __globPaths__="false").load(paths)


def cut_options(files: FilesSource) -> dict[str, str]:
    """Where Spark cuts a file whose columns are discovered: a header belongs to the whole of it."""
    if files.format == "csv":
        return {"wholetext": "true"}
    return {name: value for name, value in files.options.items() if name.lower() == "linesep"}


def with_lineage(records: DataFrame, headers: bool) -> DataFrame:
    """Kafka's columns under names that cannot be taken for payload columns."""
    lineage = ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if headers else [])]
    return records.select(*(F.col(name).alias(f"kafka_{name}") for name in lineage))


def _with_arrival(pipeline: Pipeline, records: DataFrame) -> DataFrame:
    """The records, with the columns by which some may be rejected."""
    columns = []
    if pipeline.spec.max_ahead is not None:
        columns.append(F.current_timestamp().alias(BATCH_TIME))
    if pipeline.spec.source.files is not None and pipeline.spec.sets_aside:
        columns.append(F.col("_metadata.file_path").alias(FILE))
        columns.append(F.col("_metadata.file_modification_time").alias(FILE_TIME))
    return records.select("*", *columns) if columns else records


def spark_format(files: FilesSource) -> str:
    """Spark's reader: lines whose columns are discovered come as they are."""
    return "text" if files.discovers else files.format


def _as_bytes(records: DataFrame, files: FilesSource) -> DataFrame:
    # Spark does not look whether a line is UTF-8; the decoder does. Folders such as `day=2026-01-01` are no
    # columns: a record can have one of the same name.
    return records.select(F.col(LINE).cast("binary").alias(LINE)) if files.discovers else records


def _files_schema(files: FilesSource) -> str | None:
    """Columns of the files, as DDL; lines that do not fit come whole in one more."""
    if files.discovers:
        return f"{LINE} string"
    return f"{files.schema_}, `{BROKEN_LINE}` string" if files.has_lines else files.schema_


def _files_options(files: FilesSource) -> dict[str, str]:
    """Options of the format; a broken line becomes a row of its own, not nulls."""
    if files.discovers:
        return {**files.options, **cut_options(files)}
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


def _partitions_of(positions: Positions) -> dict[str, str]:
    """Exactly these: Spark refuses offsets that leave out a partition which was added to the topic since."""
    return {"assign": json.dumps({topic: list(map(int, found)) for topic, found in positions.items()})}


def _kafka_options(pipeline: Pipeline, subscription: dict[str, str]) -> dict[str, str]:
    source = pipeline.spec.source
    return {
        **source.chosen.options,
        **kafka_client(pipeline).spark_options(),
        **subscription,
        "groupIdPrefix": consumer_group_prefix(pipeline.name),
        "includeHeaders": str(source.reads_headers).lower(),
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


def _kafka_limits(source: KafkaSource | EventHubsSource, start: Positions | None) -> dict[str, str]:
    limits = _beginning(source.starting_offsets) if start is None else {"startingOffsets": json.dumps(start)}
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


def _rate_options(source: RateSource) -> dict[str, str]:
    seconds = source.ramp_up // timedelta(seconds=1)
    return {"rowsPerSecond": str(source.rows_per_second), "rampUpTime": f"{seconds}s"}


def _rate_per_batch_options(source: RatePerBatchSource) -> dict[str, str]:
    return {
        "rowsPerBatch": str(source.rows_per_batch),
        "startTimestamp": str(int(source.starting_at.timestamp() * 1000)),
        "advanceMillisPerBatch": str(source.advance_per_batch // timedelta(milliseconds=1)),
    }


def _socket_options(source: SocketSource) -> dict[str, str]:
    times = str(source.arrival_time).lower()
    return {"host": source.host, "port": str(source.port), "includeTimestamp": times}


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
    if source.changes == "skip_deletes":
        options["ignoreDeletes"] = "true"
    if source.read_changes:
        options["readChangeFeed"] = "true"
    return options
