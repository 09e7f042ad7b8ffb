"""Decode Protobuf records to typed columns, or reject them with a reason.

| record                                                      | result                       |
|-------------------------------------------------------------|------------------------------|
| null; longer than the limit                                 | `null_value`; `oversized`    |
| framed, without the header of a zero byte and four more     | `no_schema_id`               |
| the number of an unknown schema                             | `unknown_schema_id:<number>` |
| of a schema that cannot be read as the pipeline's           | `unreadable_schema:<number>` |
| framed, without a message index, or with another one        | `other_message`              |
| bytes that end too soon or are not fields                   | `malformed_protobuf`         |
| a field of another type than its number has                 | `wrong_wire_type:<path>`     |
| an integer that is too long for its type; a bool of 2       | `out_of_range:<path>`        |
| a time outside the years 0001 to 9999, a wrong duration     | `out_of_range:<path>`        |
| a number that is not a symbol of its enum                   | `unknown_enum_number:<path>` |
| text that is not UTF-8                                      | `invalid_utf8:<path>`        |
| NaN or infinity                                             | `not_finite:<path>`          |
| a `required` field that was not written                     | `missing_required:<path>`    |

Fields with unknown numbers are ignored, because newer writers have them. Protobuf does not mark the end of a
record. So trailing bytes that happen to be such fields, and a truncation between two fields, cannot be
detected. An empty value is a record in which nothing was written.
"""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ParsedMessage

from tidemill.payload.decoder import Decoded, check_record_limit, decode_in_pieces
from tidemill.payload.leaves import Broken, Place
from tidemill.payload.protobuf_columns import message_columns
from tidemill.payload.protobuf_schema import ProtobufSchema
from tidemill.payload.protobuf_wire import message_class
from tidemill.payload.readable import drop_null_and_oversized
from tidemill.payload.registry_header import NO_SCHEMA_ID, message_place, schema_number
from tidemill.payload.sieve import Sieve
from tidemill.payload.writers import Writers

MALFORMED_PROTOBUF = "malformed_protobuf"
OTHER_MESSAGE = "other_message"


class ProtobufDecoder:
    """Decodes arrays of Protobuf records.

    Args:
        schema: Schema whose fields are the columns.
        writers: Schemas by the number at the beginning of each record, all readable as `schema`; None for
            records without a number.
        max_record_bytes: A longer record is refused before it is parsed.
    """

    def __init__(
        self, schema: ProtobufSchema, writers: Writers[ProtobufSchema] | None, max_record_bytes: int
    ) -> None:
        self.columns = schema.columns
        self._message = schema.message
        self._writers = writers
        self._max_record_bytes = check_record_limit(max_record_bytes)

    def decode(self, values: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """Decode every record or give a reason; never raises because of a record."""
        return decode_in_pieces(values, self._sift)

    def _sift(self, values: pa.Array) -> tuple[pa.RecordBatch, Sieve]:
        sieve = Sieve(values)
        drop_null_and_oversized(sieve, self._max_record_bytes)
        parsed = message_class(self._message)
        read = [self._read(record, parsed) for record in sieve.records.to_pylist()]
        sieve.drop({offset: found for offset, found in enumerate(read) if isinstance(found, str)})
        messages = [found for found in read if not isinstance(found, str)]
        broken = Broken()
        columns = message_columns(messages, self._message, Place((), None), broken)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.columns)
        stays = sieve.drop(broken.reasons)
        return rows if stays is None else rows.filter(stays), sieve

    def _read(self, record: bytes, parsed: type[ParsedMessage]) -> ParsedMessage | str:
        """Return the message, or the reason why there is none."""
        if self._writers is not None:
            number = schema_number(record)
            if number is None:
                return NO_SCHEMA_ID
            writer = self._writers.find(number)
            if isinstance(writer, str):
                return writer
            place = message_place(record)
            if place is None or place[0] != writer.place:
                return OTHER_MESSAGE
            record = record[place[1] :]
        try:
            return parsed.FromString(record)
        except DecodeError:
            return MALFORMED_PROTOBUF
