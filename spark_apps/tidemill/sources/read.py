"""Open a pipeline's source, as a stream or as a bounded batch of the past."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from tidemill.ledger.read import open_table
from tidemill.names import COLUMN_MAPPING, SCHEMAS_FOLDER, SOURCE_NAME, consumer_group_prefix
from tidemill.payload.source_columns import BATCH_TIME
from tidemill.sources.archived_events import read_archived
from tidemill.sources.file_scan import FILE_RANGES, SCAN_SCHEMA, ranges, scan_options, scanned_folder
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.past_files import files_path, read_past_files
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

# Age limit of files if none is declared. Spark's default is a week, and it would silently skip older files.
_NO_LIMIT = timedelta(days=365_000)

# Changes at which Delta would wait for a user's consent. Each start checks sinks and transform anyway.
_SCHEMA_CHANGES = ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange")


def read_streams(
    spark: SparkSession,
    pipeline: Pipeline,
    start: Positions | None = None,
    past: WarmStart | None = None,
    checkpoint: str | None = None,
) -> dict[str, DataFrame]:
    """Return each stream by name, with the columns that decoding needs; Kafka records have lineage columns.

    Several streams also have their names in the checkpoint.

    Args:
        spark: The session.
        pipeline: Pipeline that reads them.
        start: First offsets instead of the declared ones, for a single stream that has read nothing.
        past: Past to read instead of the single stream, at a warm start.
        checkpoint: The query's checkpoint, where tables with column mapping store the schemas that they were
            read with.
    """
    if past is not None:
        return {SOURCE_NAME: _with_arrival(pipeline, past_stream(spark, pipeline, past))}
    named = pipeline.spec.has_named_streams
    tell_of_names(spark, named=named)
    if not named:
        reader = _tracking_schemas(spark.readStream, pipeline, checkpoint, SOURCE_NAME)
        return {SOURCE_NAME: _with_arrival(pipeline, _stream(reader, pipeline, start))}
    readers = {
        name: _tracking_schemas(spark.readStream.name(name), stream, checkpoint, name)
        for name, stream in pipeline.streams.items()
    }
    return {
        name: _with_arrival(stream, _stream(readers[name], stream))
        for name, stream in pipeline.streams.items()
    }


def _tracking_schemas(
    reader: DataStreamReader, pipeline: Pipeline, checkpoint: str | None, stream: str
) -> DataStreamReader:
    """Let a stream of a table with column mapping continue when columns are renamed or dropped.

    Delta ends the query at such a change, and the next query reads with the new columns (TIDE-SRC-006).
    Operations do not copy the folder, so a rewound checkpoint begins with an empty one.
    """
    delta = pipeline.spec.source.delta
    if delta is None or checkpoint is None:
        return reader
    table = open_table(pipeline.layout.table(delta.table))
    if table is None or table.metadata().configuration.get(COLUMN_MAPPING, "none") == "none":
        return reader
    allowed = dict.fromkeys(_SCHEMA_CHANGES, "always")
    location = f"{checkpoint}/{SCHEMAS_FOLDER}/{stream}"
    return reader.options(schemaTrackingLocation=location, **allowed)


def _stream(reader: DataStreamReader, pipeline: Pipeline, start: Positions | None = None) -> DataFrame:
    source = pipeline.spec.source
    if source.is_kafka:
        options = _kafka_options(pipeline, _subscription(source.chosen)) | _kafka_limits(source.chosen, start)
        return with_lineage(reader.format("kafka").options(**options).load(), source.reads_headers)
    if source.files is not None:
        options = scan_options(pipeline, files_path(pipeline, source.files)) | _files_limits(source.files)
        # Spark would treat a name that it has listed, such as `a[1].json`, as a pattern.
        scan = reader.format(FILE_RANGES).schema(SCAN_SCHEMA).options(**options, __globPaths__="false")
        return ranges(scan.load(scanned_folder(pipeline)))
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
    """The part of a source that is read as a batch.

    Args:
        start: First offsets of a topic.
        end: End offsets, exclusive.
        version: Version of the table to read; by default the newest one.
        archive: Archive with older events of a hub.
        files: Names of the files to read, below the source's folder; None for all.
    """

    start: Positions | None = None
    end: Positions | None = None
    version: int | None = None
    archive: Archive | None = None
    files: frozenset[str] | None = None


def read_batch(spark: SparkSession, pipeline: Pipeline, past: Past) -> DataFrame:
    """Read the source as a batch: Kafka between two positions, others completely.

    Raises:
        SpecError: TIDE-SPEC-040, if the source has no past.
    """
    files = pipeline.spec.source.files
    if files is not None:
        return read_past_files(pipeline, files, partial(read_ranges, spark, pipeline), past.files)
    return _with_arrival(pipeline, _batch(spark, pipeline, past))


def read_ranges(spark: SparkSession, pipeline: Pipeline, path: str | None = None) -> DataFrame:
    """Return the ranges of all files of a folder, by default of the source's."""
    folder = files_path(pipeline, pipeline.spec.source.chosen) if path is None else path
    return _with_arrival(pipeline, scan_files(spark, pipeline, folder))


def scan_files(
    spark: SparkSession,
    pipeline: Pipeline,
    folder: str,
    files: Sequence[str] | None = None,
    **options: str,
) -> DataFrame:
    """Return the ranges of files. Spark lists them now, and each job on the result reads these.

    Args:
        spark: The session.
        pipeline: The pipeline that reads them.
        folder: The folder, which may have wildcards.
        files: Files of the folder to read; None for all.
        **options: Further options of the scan.
    """
    # Spark would take a name such as `a[1].json` for a pattern.
    literal = {} if files is None else {"__globPaths__": "false"}
    scan = spark.read.format(FILE_RANGES).schema(SCAN_SCHEMA)
    scan = scan.options(**scan_options(pipeline, folder), **literal, **options)
    return ranges(scan.load(folder if files is None else list(files)))


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
    """Return records between two positions; the archive of a hub supplies its part of the range."""
    source, start, end = pipeline.spec.source, past.start or {}, past.end or {}
    archived = None
    if past.archive is not None:
        slices = past.archive.between(start, end)
        archived = read_archived(spark, pipeline, slices) if slices else None
        start = past.archive.from_hub(start)
        # If the range ends before the hub's part begins, nothing is read from the hub.
        end = past.archive.from_hub(end)
    options = _kafka_options(pipeline, _partitions_of(end) if end else _subscription(source.chosen))
    options |= {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    records = with_lineage(spark.read.format("kafka").options(**options).load(), source.reads_headers)
    return records if archived is None else records.unionByName(archived)


def with_lineage(records: DataFrame, headers: bool) -> DataFrame:
    """Rename Kafka's columns so that they cannot be mistaken for payload columns."""
    lineage = ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if headers else [])]
    return records.select(*(F.col(name).alias(f"kafka_{name}") for name in lineage))


def _with_arrival(pipeline: Pipeline, records: DataFrame) -> DataFrame:
    """Return the records, with the time of the batch if event times are compared with it."""
    if pipeline.spec.max_ahead is None:
        return records
    return records.withColumn(BATCH_TIME, F.current_timestamp())


def _files_limits(files: FilesSource) -> dict[str, str]:
    """Return the options that limit and order the files of a stream."""
    age = _NO_LIMIT if isinstance(files.max_file_age, str) else files.max_file_age
    milliseconds = age // timedelta(milliseconds=1)
    limits = {"latestFirst": str(files.order == "newest").lower(), "maxFileAge": f"{milliseconds}ms"}
    if files.max_files_per_batch is not None:
        limits["maxFilesPerTrigger"] = str(files.max_files_per_batch)
    if files.max_bytes_per_batch is not None:
        limits["maxBytesPerTrigger"] = str(files.max_bytes_per_batch)
    return limits


def _partitions_of(positions: Positions) -> dict[str, str]:
    """Return exactly these partitions: Spark refuses offsets that lack a partition added since."""
    return {"assign": json.dumps({topic: list(map(int, found)) for topic, found in positions.items()})}


def _kafka_options(pipeline: Pipeline, subscription: dict[str, str]) -> dict[str, str]:
    source = pipeline.spec.source
    return {
        **source.chosen.options,
        **kafka_client(pipeline).spark_options(),
        **subscription,
        "groupIdPrefix": consumer_group_prefix(pipeline.name),
        "includeHeaders": str(source.reads_headers).lower(),
        # Never false, because Spark would silently skip records that the broker no longer has.
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
        # A partition without a later record starts at its end instead of raising an error.
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
