"""Encode rows of a test as the records of a topic, by the pipeline's payload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import UsageError
from tidemill.spec.payload import AvroPayload, ProtobufPayload
from tidemill.testing.broker import Record
from tidemill.testing.rows import Row, as_csv, as_json, as_text, check_columns, check_fits

if TYPE_CHECKING:
    from tidemill.payload.decoder import Decoder
    from tidemill.spec.payload import Payload
    from tidemill.spec.project import Pipeline


class RecordEncoder:
    """Encodes rows as values of records, by the pipeline's payload.

    Args:
        stream: A pipeline with one stream.
    """

    def __init__(self, stream: Pipeline) -> None:
        self._stream = stream

    def records(self, rows: Sequence[Row]) -> list[Record]:
        """Return one record for each row.

        Raises:
            UsageError: TIDE-TEST-003, if one does not fit; TIDE-TEST-004, if rows cannot be encoded at all.
        """
        from tidemill.payload.decoders import decoder_of

        payload = self._stream.spec.payload
        if payload is None:
            raise refused(self._stream, "rows of this payload", "hand in encoded records by add_payloads")
        decoder = decoder_of(payload, self._stream.environment.project.schemas)
        values = self._encoded(rows, payload, decoder)
        check_fits(decoder, values)
        return [Record(value) for value in values]

    def _encoded(self, rows: Sequence[Row], payload: Payload, decoder: Decoder) -> list[bytes]:
        if payload.avro is not None:
            return self._avro(rows, payload.avro)
        if payload.protobuf is not None:
            return self._protobuf(rows, payload.protobuf)
        names = decoder.columns.names
        check_columns(rows, names)
        if payload.csv is not None:
            return as_csv(rows, names, payload.csv.separator)
        return as_json(rows) if payload.json_ is not None else as_text(rows)

    def _avro(self, rows: Sequence[Row], payload: AvroPayload) -> list[bytes]:
        from tidemill.payload.schema_file import read_schema_file
        from tidemill.testing.avro_rows import as_avro

        file, number = _written_with(payload)
        header = b"" if number is None else _header(number)
        return [header + datum for datum in as_avro(rows, read_schema_file(self._schemas / file), file)]

    def _protobuf(self, rows: Sequence[Row], payload: ProtobufPayload) -> list[bytes]:
        from tidemill.testing.protobuf_rows import RowMessage

        file, number = _written_with(payload)
        message = RowMessage((self._schemas / file).read_bytes(), payload.message, file)
        # A message that no header can name is already refused with the declaration.
        header = b"" if number is None or message.place is None else _header(number) + _place(message.place)
        return [header + encoded for encoded in message.encode(rows)]

    @property
    def _schemas(self) -> Path:
        return self._stream.environment.project.schemas


def refused(pipeline: Pipeline, what: str, fix: str) -> UsageError:
    """Return the error for input that a source cannot have."""
    return UsageError(
        "TIDE-TEST-004",
        "The source cannot be given this by a test.",
        facts={"pipeline": pipeline.name, "given": what},
        fix=fix,
    )


def _written_with(payload: AvroPayload | ProtobufPayload) -> tuple[str, int | None]:
    """Return the file of the writer's schema, and its number if records have one.

    If a number names the pipeline's own schema, it is used; otherwise the highest number, which is the
    newest.
    """
    if payload.framing == "plain":
        return payload.schema_, None
    own = [number for number, file in payload.ids.items() if file == payload.schema_]
    number = max(own or payload.ids)
    return payload.ids[number], number


def _header(number: int) -> bytes:
    """Return the header of schema registry serializers, which `registry_header.py` reads."""
    return b"\x00" + number.to_bytes(4, "big")


def _place(place: tuple[int, ...]) -> bytes:
    """Return Protobuf's message index: a zero for the file's first message, or else count and numbers."""
    return b"\x00" if place == (0,) else b"".join(map(_zigzag, (len(place), *place)))


def _zigzag(number: int) -> bytes:
    left, written = number << 1, bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])
