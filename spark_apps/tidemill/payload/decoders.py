"""Create the decoder of a payload. No Spark, because `validate` and `plan` ask for its columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.payload.avro_decoder import AvroDecoder
from tidemill.payload.avro_resolution import check_resolves
from tidemill.payload.avro_schema import AvroDocument, AvroSchema, load_avro_document, load_avro_schema
from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.csv_fields import CsvDialect
from tidemill.payload.decoder import Decoder
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import PayloadSchema, load_payload_schema
from tidemill.payload.schema_file import read_schema_file
from tidemill.payload.text_decoder import TextDecoder
from tidemill.payload.writers import NamedWriters, RegisteredWriters, Writers
from tidemill.spec.payload import AvroPayload, Payload, ProtobufPayload

if TYPE_CHECKING:
    from tidemill.payload.protobuf_schema import ProtobufSchema

# Returns the content of a registered schema by its number; None for an unknown one.
Find = Callable[[int], bytes | None]

_RFC_4180 = CsvDialect()


def decoder_of(
    payload: Payload, schemas: Path, find: Find | None = None, dialect: CsvDialect = _RFC_4180
) -> Decoder:
    """Return the decoder of a payload.

    Args:
        payload: The declaration.
        schemas: Folder with the schema files.
        find: Asks the registry, for `writers: registry`; without it, only the decoder's columns can be used.
        dialect: Form of CSV files. Their separator is the payload's.

    Raises:
        SpecError: If a file is not a schema that Tidemill can enforce, or does not fit the format.
    """
    if payload.json_ is not None:
        return JsonDecoder(_json_schema(schemas / payload.json_.schema_), payload.json_.max_record_bytes)
    if payload.csv is not None:
        schema = _json_schema(schemas / payload.csv.schema_)
        dialect = replace(dialect, separator=payload.csv.separator)
        return CsvDecoder(schema, dialect, payload.csv.max_record_bytes)
    if payload.avro is not None:
        return _avro(payload.avro, schemas, find)
    if payload.protobuf is not None:
        return _protobuf(payload.protobuf, schemas, find)
    return TextDecoder(payload.chosen.max_record_bytes)


def _avro(payload: AvroPayload, schemas: Path, find: Find | None) -> AvroDecoder:
    schema = load_avro_schema(read_schema_file(schemas / payload.schema_), payload.schema_)
    if payload.framing == "plain":
        return AvroDecoder(schema, None, payload.max_record_bytes)
    writers: Writers[AvroDocument]
    if payload.writers == "registry":
        writers = RegisteredWriters(find or _nobody, partial(_registered_avro, schema))
    else:
        named = {
            number: load_avro_document(read_schema_file(schemas / name), name)
            for number, name in payload.ids.items()
        }
        writers = NamedWriters(named, partial(check_resolves, reader=schema))
    return AvroDecoder(schema, writers, payload.max_record_bytes)


def _registered_avro(schema: AvroSchema, content: bytes, number: int) -> AvroDocument:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None  # None is refused as not being a schema.
    writer = load_avro_document(document, f"schema {number} of the registry")
    check_resolves(writer, schema)
    return writer


def _protobuf(payload: ProtobufPayload, schemas: Path, find: Find | None) -> Decoder:
    # Imported here, because the runtime loads slowly and few pipelines need it.
    from tidemill.payload.protobuf_decoder import ProtobufDecoder
    from tidemill.payload.protobuf_resolution import check_resolves
    from tidemill.payload.protobuf_schema import load_protobuf_schema

    def load(name: str, reader: ProtobufSchema | None = None) -> ProtobufSchema:
        return load_protobuf_schema((schemas / name).read_bytes(), payload.message, name, reader)

    schema = load(payload.schema_)
    if payload.framing == "plain":
        return ProtobufDecoder(schema, None, payload.max_record_bytes)
    writers: Writers[ProtobufSchema]
    if payload.writers == "registry":
        writers = RegisteredWriters(find or _nobody, partial(_registered_protobuf, schema))
    else:
        named = {number: load(name, schema) for number, name in payload.ids.items()}
        writers = NamedWriters(named, partial(check_resolves, reader=schema))
    return ProtobufDecoder(schema, writers, payload.max_record_bytes)


def _registered_protobuf(schema: ProtobufSchema, content: bytes, number: int) -> ProtobufSchema:
    from tidemill.payload.protobuf_resolution import check_resolves
    from tidemill.payload.protobuf_schema import load_protobuf_schema

    writer = load_protobuf_schema(content, schema.message.name, f"schema {number} of the registry", schema)
    check_resolves(writer, schema)
    return writer


def _nobody(_number: int) -> bytes | None:
    return None


def _json_schema(file: Path) -> PayloadSchema:
    return load_payload_schema(read_schema_file(file), file.name)
