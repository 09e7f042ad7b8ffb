"""Decoding records inside Spark: one Arrow pass for every mode and writer, so results cannot differ.

A stage is a plain function over Arrow batches. The engine puts it into a plan of its own before a
transform, or composes it with the Parquet writing of the arrow writer into a single pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidemill.errors import DataError
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import PayloadSchema, load_payload_schema
from tidemill.payload.quarantine import Quarantine
from tidemill.spec.pipeline import JsonPayload
from tidemill.spec.project import Pipeline

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_LINEAGE = {
    "kafka_key": pa.binary(),
    "kafka_value": pa.binary(),
    "kafka_topic": pa.string(),
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    "kafka_timestamp": pa.timestamp("us", "UTC"),
    "kafka_headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


@dataclass(frozen=True)
class Decoding:
    """How a pipeline's records become rows.

    Args:
        stage: Kafka records with lineage columns in, rows out.
        arrow_schema: Columns of the rows: the payload's, then lineage.
    """

    stage: Stage
    arrow_schema: pa.Schema

    @property
    def spark_schema(self) -> StructType:
        """The same columns as Spark types."""
        return from_arrow_schema(self.arrow_schema)


def read_payload_schema(pipeline: Pipeline, payload: JsonPayload) -> PayloadSchema:
    """The payload schema that the pipeline names.

    Raises:
        SpecError: If the file is not a schema that Tidemill can enforce.
    """
    path = pipeline.environment.project.schemas / payload.schema_
    return load_payload_schema(json.loads(path.read_text(encoding="utf-8")), payload.schema_)


def json_decoding(pipeline: Pipeline, payload: JsonPayload, quarantine: Quarantine) -> Decoding:
    """Decode JSON records; rejected ones go to the quarantine or stop the batch, as declared."""
    schema = read_payload_schema(pipeline, payload)
    decoder = JsonDecoder(schema, payload.max_record_bytes)
    columns = rows_schema(pipeline, payload, schema)
    lineage = [name for name in columns.names if name in _LINEAGE]
    fail = payload.on_invalid == "fail"

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rejected: list[pa.RecordBatch] = []
        for batch in batches:
            decoded = decoder.decode(batch.column("kafka_value"))
            if len(decoded.rejected):
                if fail:
                    raise _invalid_record(batch, decoded.rejected[0].as_py(), decoded.reasons[0])
                rejected.append(quarantine.rows(batch, decoded.rejected, decoded.reasons))
            kept = batch.take(decoded.kept) if len(decoded.rejected) else batch
            arrays = [*decoded.rows.columns, *(kept.column(name).cast(_LINEAGE[name]) for name in lineage)]
            yield pa.RecordBatch.from_arrays(arrays, schema=columns)
        if rejected:
            quarantine.write(iter(rejected))

    return Decoding(decode, columns)


def rows_schema(pipeline: Pipeline, payload: JsonPayload, schema: PayloadSchema) -> pa.Schema:
    """Columns after decoding: the payload's, then lineage, with the raw record if it is kept."""
    lineage = ["kafka_key", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp"]
    if payload.keep_raw:
        lineage.insert(1, "kafka_value")
    if pipeline.spec.source.chosen.headers:
        lineage.append("kafka_headers")
    return pa.schema([*schema.arrow_schema, *(pa.field(name, _LINEAGE[name]) for name in lineage)])


def _invalid_record(batch: pa.RecordBatch, row: int, reason: str) -> DataError:
    position = {name: batch.column(f"kafka_{name}")[row].as_py() for name in ("topic", "partition", "offset")}
    return DataError(
        "TIDE-DATA-001",
        "A record does not fit the payload schema, and the pipeline says to stop then.",
        facts={**position, "reason": reason},
        fix="correct the producer or the schema, or set payload.json.on_invalid to quarantine",
    )
