"""Decode records inside Spark: one Arrow pass for every mode and writer, so that results cannot differ.

A stage is a plain function over Arrow batches. The engine puts it into a separate plan before a transform, or
combines it with the arrow writer's Parquet writing into a single pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidemill.payload.decoders import Find, decoder_of
from tidemill.payload.device_columns import DEVICE_SCHEMA
from tidemill.payload.door import Door
from tidemill.payload.event_time import EventTimeLimit
from tidemill.payload.late_rows import LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejections import kafka_records
from tidemill.payload.source_columns import BATCH_TIME
from tidemill.spec.payload import Payload
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_LINEAGE = {
    "kafka_key": pa.binary(),
    "kafka_value": pa.binary(),
    "kafka_topic": pa.string(),
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    "kafka_timestamp": pa.timestamp("us", "UTC"),
    "kafka_headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    **{field.name: field.type for field in DEVICE_SCHEMA},
}


@dataclass(frozen=True)
class Decoding:
    """The decoding of a pipeline's records.

    Args:
        stage: Function from the source's batches to rows.
        arrow_schema: Columns of the rows.
    """

    stage: Stage
    arrow_schema: pa.Schema

    @property
    def spark_schema(self) -> StructType:
        """Return the same columns as Spark types."""
        return from_arrow_schema(self.arrow_schema)


def payload_decoding(
    pipeline: Pipeline, payload: Payload, quarantine: Quarantine, late_rows: LateRows | None = None
) -> Decoding:
    """Decode the records of a topic; rejected ones go to the quarantine or stop the batch, as declared.

    Args:
        pipeline: The pipeline.
        payload: Decoding of its records.
        quarantine: Quarantine for rejected records.
        late_rows: Sets late rows aside; None to pass them on.

    Raises:
        SpecError: If a schema file is not one that Tidemill can enforce.
    """
    decoder = decoder_of(payload, pipeline.environment.project.schemas, _registered(pipeline, payload))
    columns = rows_schema(pipeline, payload, decoder.columns)
    lineage = [name for name in columns.names if name in _LINEAGE]
    stops = payload.chosen.on_invalid == "fail"
    door = Door(quarantine, stops, event_time_limit(pipeline), late_rows)
    keeps_tombstones = payload.chosen.tombstones == "keep"

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passage = door.open()
        for records in batches:
            batch = records
            if keeps_tombstones and batch["kafka_value"].null_count:
                yield _tombstones(batch.filter(pc.is_null(batch["kafka_value"])), columns)
                batch = batch.filter(pc.is_valid(batch["kafka_value"]))
            decoded = decoder.decode(batch.column("kafka_value"))
            if decoded.reasons:
                passage.reject(kafka_records(batch, decoded.rejected), decoded.reasons)
            kept = batch.take(decoded.kept) if len(decoded.rejected) else batch
            arrays = [*decoded.rows.columns, *(kept.column(name).cast(_LINEAGE[name]) for name in lineage)]
            rows = pa.RecordBatch.from_arrays(arrays, schema=columns)
            clock = kept[BATCH_TIME] if BATCH_TIME in kept.schema.names else None
            yield passage.rows(rows, partial(kafka_records, kept), kept["kafka_timestamp"], clock)
        passage.close()

    return Decoding(decode, columns)


def _registered(pipeline: Pipeline, payload: Payload) -> Find | None:
    """Return a function that finds writers' schemas in the tasks, by the registry and its stored answers."""
    if not payload.asks_registry:
        return None
    # Imported here, because Protobuf's runtime loads slowly and few pipelines need a registry.
    from tidemill.payload.registered_schemas import RegisteredSchemas
    from tidemill.payload.registry_client import registry_of

    client = registry_of(pipeline.environment)
    folder = pipeline.layout.registered_schemas(pipeline.name, client.address)
    return RegisteredSchemas(client, payload.format.upper(), folder, access_to(folder)).find


def _tombstones(records: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return records without a value as rows: their lineage, and nulls."""
    arrays = [
        records[field.name].cast(field.type) if field.name in _LINEAGE else pa.nulls(len(records), field.type)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def event_time_limit(pipeline: Pipeline) -> EventTimeLimit | None:
    """Return how far events of the pipeline may be ahead; None without a limit."""
    event_time, max_ahead = pipeline.spec.event_time, pipeline.spec.max_ahead
    return None if event_time is None or max_ahead is None else EventTimeLimit(event_time.column, max_ahead)


def rows_schema(pipeline: Pipeline, payload: Payload, decoded: pa.Schema) -> pa.Schema:
    """Return the columns after decoding: the payload's, then lineage, with the raw record if it is kept."""
    lineage = ["kafka_key", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp"]
    if payload.chosen.keep_raw:
        lineage.insert(1, "kafka_value")
    if pipeline.spec.source.chosen.headers:
        lineage.append("kafka_headers")
    if pipeline.spec.source.has_device_columns:
        lineage += DEVICE_SCHEMA.names
    return pa.schema([*decoded, *(pa.field(name, _LINEAGE[name]) for name in lineage)])
