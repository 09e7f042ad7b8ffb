"""Read events of a hub's archive in Spark's tasks, with the same columns as from the hub itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.capture.archive import Slice
from tidemill.capture.archive_files import ArchiveFolder
from tidemill.capture.events import CapturedEvent, CapturedValue
from tidemill.errors import DataError, SpecError
from tidemill.payload.amqp_values import encoded
from tidemill.spec.capture import PathFormat
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to

# Number of events in one Arrow batch, the same as Spark's.
EVENTS_PER_BATCH = 10_000

COLUMNS = pa.schema(
    [
        ("kafka_key", pa.binary()),
        ("kafka_value", pa.binary()),
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp", pa.timestamp("us", tz="UTC")),
        ("kafka_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
Headers = tuple[tuple[str, bytes | None], ...]

# The same for Spark.
_TYPES = {
    "kafka_key": "binary",
    "kafka_value": "binary",
    "kafka_topic": "string",
    "kafka_partition": "int",
    "kafka_offset": "bigint",
    "kafka_timestamp": "timestamp",
    "kafka_headers": "array<struct<key: string, value: binary>>",
}
_SLICES = "path string, partition int, first long, end long"


def read_archived(spark: SparkSession, pipeline: Pipeline, slices: Sequence[Slice]) -> DataFrame:
    """Return these events as rows, each once; offset = sequence number, timestamp = enqueued time.

    Raises:
        SpecError: TIDE-SPEC-041, if the source has no archive.
    """
    rows_of = archived_rows(pipeline)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = (Slice(**row) for batch in batches for row in batch.to_pylist())
        yield from in_batches((row for each in wanted for row in rows_of(each)), COLUMNS)

    tasks = max(1, min(len(slices), spark.sparkContext.defaultParallelism * 4))
    listed = spark.createDataFrame([tuple(each.model_dump().values()) for each in slices], _SLICES)
    events = listed.repartition(tasks).mapInArrow(read, ddl_of(COLUMNS))
    return events if pipeline.spec.source.reads_headers else events.drop("kafka_headers")


def archived_rows(pipeline: Pipeline) -> Callable[[Slice], Iterator[dict[str, Any]]]:
    """Return a function that reads slices in a task, with the columns of the source.

    Raises:
        SpecError: TIDE-SPEC-041, if the source has no archive.
    """
    source = pipeline.spec.source.event_hub
    if source is None or source.capture is None:
        raise SpecError(
            "TIDE-SPEC-041",
            "The plan reads an archive, and the source declares none.",
            facts={"pipeline": pipeline.name},
            fix="declare `capture` of the source, and plan again",
        )
    hub, folder = source.hub, pipeline.layout.folder(source.capture.path)
    paths, access = PathFormat(source.capture, source.namespace, hub), access_to(folder)
    headers_of = _all_properties if pipeline.spec.source.has_device_columns else _application_properties

    def rows(wanted: Slice) -> Iterator[dict[str, Any]]:
        # Opened in the task, because its process has no credentials, and a connection cannot be sent.
        archive = ArchiveFolder(folder, paths, access)
        return _rows(hub, wanted, events_of(archive.events, wanted), headers_of)

    return rows


def ddl_of(columns: pa.Schema) -> str:
    """Return the columns of a source as DDL for Spark."""
    return ", ".join(f"{name} {_TYPES[name]}" for name in columns.names)


def in_batches(rows: Iterator[dict[str, Any]], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches; unwanted columns are left out."""
    while part := list(itertools.islice(rows, EVENTS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist(part, columns)


def events_of(open_file: Callable[[str], Iterable[CapturedEvent]], wanted: Slice) -> Iterator[CapturedEvent]:
    """Yield the events of a slice once each, even if its file repeats or reorders them.

    Raises:
        DataError: TIDE-HUB-005, if the file no longer has all of them, or is gone.
    """
    taken = bytearray(wanted.end - wanted.first)
    left = len(taken)
    for event in _unless_gone(open_file, wanted.path):
        place = event.number - wanted.first
        if 0 <= place < len(taken) and not taken[place]:
            taken[place] = 1
            left -= 1
            yield event
            if not left:
                # A chunk takes a part of a large file; the plan has checked the rest.
                return
    if left:
        raise DataError(
            "TIDE-HUB-005",
            "A file of the archive no longer has the events that it had when the backfill was planned.",
            facts={"file": wanted.path, "missing": left},
            fix="bring the file back as it was, or plan again",
            runbook="backfill",
        )


def _unless_gone(open_file: Callable[[str], Iterable[CapturedEvent]], path: str) -> Iterator[CapturedEvent]:
    try:
        yield from open_file(path)
    except FileNotFoundError:
        # The events of a missing file are counted as missing.
        return


def _application_properties(event: CapturedEvent) -> Headers:
    return _as_headers(event.properties)


def _all_properties(event: CapturedEvent) -> Headers:
    return _as_headers({**event.properties, **event.system})


def _as_headers(properties: Mapping[str, CapturedValue]) -> Headers:
    """Return properties as the hub's Kafka endpoint returns them; a null value has no bytes.

    Capture stores every whole number as a long, so its bytes may be wider than those of the endpoint.
    """
    return tuple((name, None if value is None else encoded(value)) for name, value in properties.items())


def _rows(
    hub: str, wanted: Slice, events: Iterable[CapturedEvent], headers_of: Callable[[CapturedEvent], Headers]
) -> Iterator[dict[str, Any]]:
    for event in events:
        yield {
            "kafka_key": event.key,
            "kafka_value": event.body,
            "kafka_topic": hub,
            "kafka_partition": wanted.partition,
            "kafka_offset": event.number,
            "kafka_timestamp": event.enqueued,
            "kafka_headers": [{"key": name, "value": value} for name, value in headers_of(event)] or None,
        }
