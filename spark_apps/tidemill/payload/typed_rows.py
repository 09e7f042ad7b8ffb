"""Rows that come with their columns: from files, tables, or undecoded from a topic.

They pass the same door as decoded records: lines that do not fit the schema, and events from the future, go
to the quarantine or stop the batch; late rows may go into a table of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.payload.decode import Decoding, event_time_limit
from tidemill.payload.event_time import EventTimeLimit
from tidemill.payload.late_rows import LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejections import Rejections, kafka_records
from tidemill.payload.source_columns import (
    BATCH_TIME,
    BROKEN_LINE,
    BROKEN_REASON,
    FILE,
    FILE_TIME,
    HIDDEN_COLUMNS,
    LINE_NUMBER,
)
from tidemill.spec.project import Pipeline
from tidemill.storage.row_values import row_values


def typed_rows(
    pipeline: Pipeline, records: StructType, quarantine: Quarantine, late_rows: LateRows | None = None
) -> Decoding:
    """What becomes of the rows of a source without a payload.

    Args:
        pipeline: Whose source.
        records: Columns of the source with those that no row keeps.
        quarantine: Takes what is rejected.
        late_rows: Sets late rows aside; None where they go on.
    """
    files = pipeline.spec.source.files
    stops = files is not None and files.on_invalid == "fail"
    broken = f"malformed_{files.format}" if files is not None else ""
    kept = StructType([field for field in records if field.name not in HIDDEN_COLUMNS])
    columns = to_arrow_schema(kept, timezone="UTC")
    limit = event_time_limit(pipeline)
    records_of = partial(_records, pipeline.spec.source.is_kafka)

    def sift(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rejections = Rejections(quarantine, stops)
        late = None if late_rows is None else late_rows.begin()
        for batch in batches:
            reasons = _reasons(batch, limit, broken)
            rows = batch.select(columns.names)
            if reasons is not None:
                places = pc.indices_nonzero(reasons.is_valid())
                rejections.add(records_of(batch, rows, places), reasons.take(places).to_pylist())
                rows, batch = rows.filter(reasons.is_null()), batch.filter(reasons.is_null())  # noqa: PLW2901
            if late is not None:
                rows = late.passed(rows, partial(records_of, batch, rows))
            yield rows if rows.schema.equals(columns) else rows.cast(columns)
        rejections.hand_in()
        if late is not None:
            late.hand_in()

    return Decoding(sift, columns)


def undecoded(records: StructType) -> Decoding:
    """Rows of a source without a payload of which none is set aside: the columns, and no others."""
    columns = to_arrow_schema(records, timezone="UTC")

    def select(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.select(columns.names)
            yield rows if rows.schema.equals(columns) else rows.cast(columns)

    return Decoding(select, columns)


def _reasons(batch: pa.RecordBatch, limit: EventTimeLimit | None, broken: str) -> pa.StringArray | None:
    """Why each row is rejected, null for good ones; None if all are good."""
    reasons = pa.nulls(batch.num_rows, pa.string())
    if limit is not None:
        told = [name for name in ("kafka_timestamp", FILE_TIME) if name in batch.schema.names]
        arrived = batch[told[0]] if told else None
        ahead = limit.ahead(batch[limit.column], arrived, batch[BATCH_TIME])
        if ahead is not None:
            reasons = pc.if_else(ahead, limit.reason, reasons)
    if BROKEN_LINE in batch.schema.names:
        why = batch[BROKEN_REASON] if BROKEN_REASON in batch.schema.names else broken
        reasons = pc.if_else(batch[BROKEN_LINE].is_valid(), why, reasons)
    return None if reasons.null_count == batch.num_rows else reasons


def _records(
    of_topic: bool, batch: pa.RecordBatch, rows: pa.RecordBatch, places: pa.Array
) -> dict[str, pa.Array]:
    """Columns of the quarantine of the records in these places."""
    if of_topic:
        return kafka_records(batch, places)
    taken = batch.take(places)
    records = {"value": pa.array(_values(taken, rows.take(places)), pa.binary())}
    if FILE in taken.schema.names:
        records |= {"file": taken[FILE], "arrived_at": taken[FILE_TIME]}
    if LINE_NUMBER in taken.schema.names:
        records["line"] = taken[LINE_NUMBER]
    return records


def _values(taken: pa.RecordBatch, rows: pa.RecordBatch) -> list[bytes]:
    """The line as it stands in the file where that is known, else the row as JSON."""
    lines: list[bytes | None] = [None] * len(taken)
    if BROKEN_LINE in taken.schema.names:
        # Its bytes need not be UTF-8.
        lines = taken[BROKEN_LINE].cast(pa.binary()).to_pylist()
    return [_as_json(rows.slice(place, 1)) if line is None else line for place, line in enumerate(lines)]


def _as_json(row: pa.RecordBatch) -> bytes:
    return json.dumps(row_values(row)[0], default=str, ensure_ascii=False).encode()
