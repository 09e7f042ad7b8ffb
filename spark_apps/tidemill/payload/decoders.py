"""Which decoder a payload names. No Spark: `validate` and `plan` ask for its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.payload.avro_decoder import AvroDecoder
from tidemill.payload.avro_schema import AvroSchema, load_avro_schema
from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.decoder import Decoder
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import PayloadSchema, load_payload_schema
from tidemill.payload.schema_file import read_schema_file
from tidemill.payload.text_decoder import TextDecoder
from tidemill.spec.payload import AvroPayload, Payload, ProtobufPayload

if TYPE_CHECKING:
    from tidemill.payload.protobuf_schema import ProtobufSchema


def decoder_of(payload: Payload, schemas: Path) -> Decoder:
    """The decoder of a payload.

    Args:
        payload: As it is declared.
        schemas: Folder with the schema files.

    Raises:
        SpecError: If a file is not a schema that Tidemill can enforce, or does not fit the format.
    """
    if payload.json_ is not None:
        return JsonDecoder(_json_schema(schemas / payload.json_.schema_), payload.json_.max_record_bytes)
    if payload.csv is not None:
        schema = _json_schema(schemas / payload.csv.schema_)
        return CsvDecoder(schema, payload.csv.separator, payload.csv.max_record_bytes)
    if payload.avro is not None:
        return _avro(payload.avro, schemas)
    if payload.protobuf is not None:
        return _protobuf(payload.protobuf, schemas)
    return TextDecoder(payload.chosen.max_record_bytes)


def _avro(payload: AvroPayload, schemas: Path) -> AvroDecoder:
    writers = {number: _avro_schema(schemas / name) for number, name in payload.ids.items()}
    framed = payload.framing == "confluent"
    return AvroDecoder(
        _avro_schema(schemas / payload.schema_), writers if framed else None, payload.max_record_bytes
    )


def _protobuf(payload: ProtobufPayload, schemas: Path) -> Decoder:
    # Here, since the runtime takes a while to load and few pipelines need it.
    from tidemill.payload.protobuf_decoder import ProtobufDecoder
    from tidemill.payload.protobuf_schema import load_protobuf_schema

    def schema(name: str) -> ProtobufSchema:
        return load_protobuf_schema((schemas / name).read_bytes(), payload.message, name)

    writers = {number: schema(name) for number, name in payload.ids.items()}
    framed = payload.framing == "confluent"
    return ProtobufDecoder(schema(payload.schema_), writers if framed else None, payload.max_record_bytes)


def _json_schema(file: Path) -> PayloadSchema:
    return load_payload_schema(read_schema_file(file), file.name)


def _avro_schema(file: Path) -> AvroSchema:
    return load_avro_schema(read_schema_file(file), file.name)
