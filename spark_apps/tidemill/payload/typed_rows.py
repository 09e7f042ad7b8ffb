"""Rows of sources with typed columns: tables, generators, and topics whose records stay bytes.

They pass the same door as decoded records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.payload.decode import Decoding, event_time_limit
from tidemill.payload.door import Door
from tidemill.payload.late_rows import LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejections import kafka_records
from tidemill.payload.source_columns import BATCH_TIME, HIDDEN_COLUMNS
from tidemill.spec.project import Pipeline
from tidemill.storage.row_values import row_values


def typed_rows(
    pipeline: Pipeline, records: StructType, quarantine: Quarantine, late_rows: LateRows | None = None
) -> Decoding:
    """Return the function that passes the rows of a source through the door.

    Args:
        pipeline: The pipeline.
        records: Columns of the source, including those that rows do not keep.
        quarantine: Quarantine for rejected rows.
        late_rows: Sets late rows aside; None to pass them on.
    """
    kept = StructType([field for field in records if field.name not in HIDDEN_COLUMNS])
    columns = to_arrow_schema(kept, timezone="UTC")
    door = Door(quarantine, False, event_time_limit(pipeline), late_rows)
    of_topic = pipeline.spec.source.is_kafka

    def sift(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passage = door.open()
        for batch in batches:
            rows = _of_schema(batch.select(columns.names), columns)
            arrived, clock = (_column(batch, name) for name in ("kafka_timestamp", BATCH_TIME))
            records_at = partial(kafka_records, batch) if of_topic else partial(rows_as_records, rows)
            yield passage.rows(rows, records_at, arrived, clock)
        passage.close()

    return Decoding(sift, columns)


def undecoded(records: StructType) -> Decoding:
    """Return the function that only selects the columns, for rows that are never set aside."""
    columns = to_arrow_schema(records, timezone="UTC")

    def select(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _of_schema(batch.select(columns.names), columns)

    return Decoding(select, columns)


def rows_as_records(rows: pa.RecordBatch, places: pa.Array) -> Mapping[str, pa.Array]:
    """Return the quarantine columns of rows without a record: the row as JSON."""
    taken = row_values(rows.take(places))
    values = [json.dumps(row, default=str, ensure_ascii=False).encode() for row in taken]
    return {"value": pa.array(values, pa.binary())}


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch[name] if name in batch.schema.names else None


def _of_schema(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    return rows if rows.schema.equals(columns) else rows.cast(columns)
