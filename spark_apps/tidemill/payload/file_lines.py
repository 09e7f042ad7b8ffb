"""Lines of files whose columns are discovered, as rows and broken lines; Spark's readers do it for others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tidemill.payload.decode import Stage
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.inferred_schema import Node, all_merged, inferred
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_framing import EMPTY
from tidemill.payload.json_text import RepeatedNameError, read_raw
from tidemill.payload.rescue import Rescued, RescuingDecoder
from tidemill.payload.source_columns import BROKEN_LINE, BROKEN_REASON, FILE, LINE


@dataclass(frozen=True)
class LineReading:
    """How lines become rows.

    Args:
        stage: Lines in; rows out, with broken lines beside them.
        columns: What comes out.
    """

    stage: Stage
    columns: StructType


def line_reading(discovered: DiscoveredColumns, lines: StructType) -> LineReading:
    """Read lines by the columns that were discovered.

    Args:
        discovered: The columns; takes what is found beside them.
        lines: What the source gives: the line, and columns that the door needs.
    """
    decoder = _decoder(discovered)
    given = StructType([field for field in lines if field.name != LINE])
    broken = [StructField(BROKEN_LINE, BinaryType()), StructField(BROKEN_REASON, StringType())]
    columns = StructType([*from_arrow_schema(decoder.columns), *broken, *given])
    names, found = given.names, discovered.found if discovered.wants_new else None

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told: list[Node | None] = []
        for batch in batches:
            read = _decode(decoder, batch)
            told.append(read.found)
            yield _rows(batch.select(names), batch[LINE], read)
        everything = all_merged(told)
        if found is not None and everything is not None:
            found.add(everything)

    return LineReading(read, columns)


def _decoder(discovered: DiscoveredColumns) -> RescuingDecoder | JsonDecoder:
    if discovered.keeps_names:
        return RescuingDecoder(discovered.columns, discovered.schema, finds=discovered.wants_new)
    return JsonDecoder(discovered.schema, MAX_BLOCK_BYTES)


def _decode(decoder: RescuingDecoder | JsonDecoder, batch: pa.RecordBatch) -> Rescued:
    if isinstance(decoder, JsonDecoder):
        return Rescued(decoder.decode(batch[LINE]), None)
    return decoder.decode(batch[LINE], batch[FILE])


def _rows(given: pa.RecordBatch, lines: pa.BinaryArray, read: Rescued) -> pa.RecordBatch:
    """Good rows, then broken lines; a blank line is no record."""
    decoded = read.decoded
    told = [
        (place, reason)
        for place, reason in zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True)
        if reason != EMPTY
    ]
    broken = pa.array([place for place, _ in told], pa.int64())
    good, none = len(decoded.rows), len(told)
    arrays = [pa.concat_arrays([column, pa.nulls(none, column.type)]) for column in decoded.rows.columns]
    arrays.append(pa.concat_arrays([pa.nulls(good, pa.binary()), lines.take(broken).cast(pa.binary())]))
    arrays.append(pa.array([*[None] * good, *(reason for _, reason in told)], pa.string()))
    places = pa.concat_arrays([decoded.kept, broken])
    arrays += [column.take(places) for column in given.columns]
    names = [*decoded.rows.schema.names, BROKEN_LINE, BROKEN_REASON, *given.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def inferred_from(lines: pa.BinaryArray) -> Node | None:
    """What some lines say of their columns together; broken ones say nothing."""
    return all_merged(map(_inferred_from, lines.to_pylist()))


def _inferred_from(line: bytes) -> Node | None:
    try:
        record = read_raw(line.decode())
    except (RepeatedNameError, ValueError, RecursionError):
        return None
    return inferred(record) if isinstance(record, dict) else None
