"""Decode Avro records to typed columns, or reject them with a reason.

fastavro parses one record at a time, and then whole columns get their types. It accepts a few bytes that no
writer produces: a boolean with a byte other than 0 and 1, and a symbol or branch counted from the end.

| record                                                    | result                      |
|-----------------------------------------------------------|-----------------------------|
| null; longer than the limit                               | `null_value`; `oversized`   |
| framed, without the header of a zero byte and four more   | `no_schema_id`              |
| the number of an unknown schema                           | `unknown_schema_id:<number>`|
| the number of a schema that the pipeline's schema cannot read | `unreadable_schema:<number>` |
| bytes that end too soon; text that is not UTF-8           | `malformed_avro`            |
| an `int` beyond 32 bits                                   | `malformed_avro`            |
| a field that is skipped, nested deeper than 200 records   | `malformed_avro`            |
| a null, symbol or branch of the writer's that the pipeline's schema lacks | `unreadable_value` |
| bytes after the datum                                     | `trailing_bytes`            |
| NaN or infinity, unless the schema allows it              | `not_finite:<path>`         |
| a time or date outside the years 0001 to 9999             | `out_of_range:<path>`       |
| a decimal with more digits than are declared              | `out_of_range:<path>`       |
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError

from tidemill.payload.avro_resolution import Reading, reading_of
from tidemill.payload.avro_schema import AvroDocument, AvroSchema
from tidemill.payload.avro_values import column_type, converted, raw_type
from tidemill.payload.decoder import Decoded, check_record_limit, decode_in_pieces
from tidemill.payload.readable import drop_null_and_oversized
from tidemill.payload.registry_header import HEADER_BYTES, NO_SCHEMA_ID, schema_number
from tidemill.payload.sieve import Sieve
from tidemill.payload.writers import Writers

MALFORMED_AVRO = "malformed_avro"
TRAILING_BYTES = "trailing_bytes"
UNREADABLE_VALUE = "unreadable_value"

# fastavro's exceptions for bytes that are not a valid record.
_NOT_AVRO = (EOFError, ValueError, TypeError, LookupError, ArithmeticError)


class AvroDecoder:
    """Decodes arrays of Avro records.

    Args:
        schema: Schema whose fields are the columns.
        writers: Schemas by the number at the beginning of each record, all readable as `schema`; None for
            records without a number.
        max_record_bytes: A longer record is refused before it is parsed.
    """

    def __init__(
        self, schema: AvroSchema, writers: Writers[AvroDocument] | None, max_record_bytes: int
    ) -> None:
        self.schema = schema
        self._writers = writers
        self._unframed = reading_of(schema.document, schema)
        self._readings: dict[int, Reading | str] = {}
        self._raw = pa.schema([pa.field(field.name, raw_type(field.type)) for field in schema.wire])
        self.columns = pa.schema([pa.field(field.name, column_type(field.type)) for field in schema.wire])
        self._max_record_bytes = check_record_limit(max_record_bytes)

    def decode(self, values: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """Decode every record or give a reason; never raises because of a record."""
        return decode_in_pieces(values, self._sift)

    def _sift(self, values: pa.Array) -> tuple[pa.RecordBatch, Sieve]:
        sieve = Sieve(values)
        drop_null_and_oversized(sieve, self._max_record_bytes)
        read = [self._read(record) for record in sieve.records.to_pylist()]
        return self._rows(read, sieve), sieve

    def decode_data(self, data: Sequence[dict[str, Any] | str]) -> Decoded:
        """Return the data of an Avro file as rows.

        Args:
            data: Each datum as fastavro reads it, or the reason why there is none.
        """
        sieve = Sieve(pa.nulls(len(data)))
        rows = self._rows(data, sieve)
        positions, reasons = sieve.fallen()
        return Decoded(rows, sieve.positions, pa.array(positions, pa.int64()), reasons)

    def _rows(self, read: Sequence[dict[str, Any] | str], sieve: Sieve) -> pa.RecordBatch:
        sieve.drop({offset: found for offset, found in enumerate(read) if isinstance(found, str)})
        data = [found for found in read if not isinstance(found, str)]
        raw, too_large = self._columns_of(data)
        sieve.drop(dict.fromkeys(too_large, MALFORMED_AVRO))
        rows, broken = converted(raw, self.schema, self.columns)
        stays = sieve.drop(broken.reasons)
        return rows if stays is None else rows.filter(stays)

    def _read(self, record: bytes) -> dict[str, Any] | str:
        """Return the datum, or the reason why there is none."""
        if self._writers is None:
            return _datum(record, 0, self._unframed)
        number = schema_number(record)
        if number is None:
            return NO_SCHEMA_ID
        reading = self._readings.get(number)
        if reading is None:
            writer = self._writers.find(number)
            reading = writer if isinstance(writer, str) else reading_of(writer, self.schema)
            self._readings[number] = reading
        return reading if isinstance(reading, str) else _datum(record, HEADER_BYTES, reading)

    def _columns_of(self, data: list[dict[str, Any]]) -> tuple[pa.RecordBatch, list[int]]:
        """Return the data as columns, and the positions of data with a number too large for its type."""
        try:
            return self._batch(data), []
        except (pa.ArrowException, OverflowError):
            wrong = list(self._failing(data, 0))
            outside = set(wrong)
            return self._batch([datum for place, datum in enumerate(data) if place not in outside]), wrong

    def _failing(self, data: list[dict[str, Any]], start: int) -> Iterator[int]:
        try:
            self._batch(data)
        except (pa.ArrowException, OverflowError):
            if len(data) == 1:
                yield start
                return
            middle = len(data) // 2
            yield from self._failing(data[:middle], start)
            yield from self._failing(data[middle:], start + middle)

    def _batch(self, data: list[dict[str, Any]]) -> pa.RecordBatch:
        arrays = [pa.array([datum[field.name] for datum in data], field.type) for field in self._raw]
        return pa.RecordBatch.from_arrays(arrays, schema=self._raw)


def _datum(record: bytes, start: int, reading: Reading) -> dict[str, Any] | str:
    stream = io.BytesIO(record)
    stream.seek(start)
    try:
        datum: Any = schemaless_reader(stream, reading.writer, reading.reader)
    except SchemaResolutionError:
        return UNREADABLE_VALUE
    except _NOT_AVRO:
        return MALFORMED_AVRO
    return datum if stream.tell() == len(record) else TRAILING_BYTES
