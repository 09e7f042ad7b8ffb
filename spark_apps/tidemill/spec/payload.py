"""The format of the records of a topic: `payload: {<format>: {...}}`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import (
    AVRO_FILE_PATTERN,
    MAX_SENTENCE,
    MESSAGE_PATTERN,
    PROTOBUF_FILE_PATTERN,
    SCHEMA_FILE_PATTERN,
)
from tidemill.spec.units import Size

OnInvalid = Annotated[
    Literal["quarantine", "fail"],
    Field(
        description="Handling of records that do not fit. quarantine: they go to the quarantine table, and "
        "the pipeline continues. fail: the pipeline stops.",
    ),
]
# Kafka's default limit is 1 MB, and a larger record is nearly always a mistake. One such record of each
# partition must fit into the Python worker's memory in addition to a whole batch.
MaxRecordBytes = Annotated[
    Size,
    Field(2**20, description="Maximum size of a record. Larger records are invalid.", validate_default=True),
]
KeepRaw = Annotated[bool, Field(description="Keep the undecoded record in the column kafka_value.")]
Tombstones = Annotated[
    Literal["reject", "keep"],
    Field(
        description="Handling of records without a value, which delete a key in compacted topics. reject: "
        "they are invalid. keep: they become rows with null in all decoded columns; `kafka_key` has the key."
    ),
]
JsonSchemaFile = Annotated[str, Field(pattern=SCHEMA_FILE_PATTERN)]
AvroFile = Annotated[str, Field(pattern=AVRO_FILE_PATTERN)]


def _is_compiled(file: object) -> object:
    if isinstance(file, str) and file.endswith(".proto"):
        compiled = f"{file[: -len('.proto')]}.desc"
        raise ValueError(
            "a `.proto` file is compiled first, so that what runs needs no compiler: "
            f"`protoc --include_imports --descriptor_set_out={compiled} {file}`; then name {compiled}"
        )
    return file


ProtobufFile = Annotated[str, Field(pattern=PROTOBUF_FILE_PATTERN), BeforeValidator(_is_compiled)]
WritersFrom = Annotated[
    Literal["ids", "registry"],
    Field(
        description="With `framing: confluent`, the origin of the writers' schemas: the key `ids`, or "
        "registry for the environment's `schema_registry`. Schemas from the registry are stored with the "
        "pipeline's state."
    ),
]
# Registries assign IDs from 1 up, in four bytes.
SchemaId = Annotated[int, Field(ge=0, lt=2**31)]


class JsonPayload(Strict):
    """Each record is one JSON object."""

    schema_: JsonSchemaFile = Field(
        alias="schema", description="File in conf/schemas/ with the JSON Schema of a record."
    )
    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"


class TextPayload(Strict):
    """Each record is UTF-8 text, which becomes the column `value`."""

    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"


class CsvPayload(Strict):
    """Each record is one line of CSV without a header, with the fields of the schema in order."""

    schema_: JsonSchemaFile = Field(
        alias="schema",
        description="File in conf/schemas/ with a JSON Schema, whose properties are the fields in order. An "
        "empty field is null, and an empty field in quotes is empty text.",
    )
    separator: str = Field(",", description="Character between two fields.", min_length=1, max_length=1)
    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"

    @field_validator("separator")
    @classmethod
    def _separates(cls, separator: str) -> str:
        if separator in '"\r\n\x00':
            raise ValueError("a quote, a line break or NUL cannot separate fields")
        return separator


class AvroPayload(Strict):
    """Each record is one Avro datum, without the header of an Avro file."""

    schema_: AvroFile = Field(
        alias="schema",
        description="File in conf/schemas/ with the Avro schema whose fields are the columns.",
    )
    framing: Literal["plain", "confluent"] = Field(
        "plain",
        description="Bytes before the datum. plain: none. confluent: a zero byte and the ID of the writer's "
        "schema in four bytes, as the serializers of schema registries write them.",
    )
    ids: dict[SchemaId, AvroFile] = Field(
        {},
        description="With `framing: confluent`, the schema file of each writer by schema ID, e.g. {7: "
        "event.avsc}. A record with another ID is invalid.",
    )
    writers: WritersFrom = "ids"
    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"

    @model_validator(mode="after")
    def _writers_are_known(self) -> Self:
        _check_framing(self, "event.avsc")
        return self


class ProtobufPayload(Strict):
    """Each record is one Protobuf message."""

    schema_: ProtobufFile = Field(
        alias="schema",
        description="File in conf/schemas/ with a descriptor set, as for Spark's from_protobuf: "
        "`protoc --include_imports --descriptor_set_out=order.desc order.proto`.",
    )
    message: str = Field(
        description="Name of the message with its package. Its fields are the columns.",
        pattern=MESSAGE_PATTERN,
        max_length=MAX_SENTENCE,
    )
    framing: Literal["plain", "confluent"] = Field(
        "plain",
        description="Bytes before the message. plain: none. confluent: a zero byte, the ID of the writer's "
        "schema in four bytes, and the message's indexes in the schema, as the serializers of schema "
        "registries write them.",
    )
    ids: dict[SchemaId, ProtobufFile] = Field(
        {},
        description="With `framing: confluent`, the schema file of each writer by schema ID, e.g. {7: "
        "event.desc}. A record with another ID is invalid.",
    )
    writers: WritersFrom = "ids"
    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"

    @model_validator(mode="after")
    def _writers_are_known(self) -> Self:
        _check_framing(self, "event.desc")
        return self


def _check_framing(payload: AvroPayload | ProtobufPayload, example: str) -> None:
    if payload.writers == "registry":
        if payload.framing == "plain" or payload.ids:
            raise ValueError("`writers: registry` is for `framing: confluent`, and without `ids`")
        return
    if payload.framing == "confluent" and not payload.ids:
        raise ValueError(
            f"`framing: confluent` needs `ids`, e.g. {{7: {example}}}, or `writers: registry`: bytes do not "
            "tell their schema, and a record that was written with another one would be decoded wrongly "
            "without an error"
        )
    if payload.framing == "plain" and payload.ids:
        raise ValueError("`ids` is for `framing: confluent`; a plain record has no number of a schema")


class Payload(OneOf):
    """Exactly one format of the records. Without `payload:` they stay bytes."""

    json_: JsonPayload | None = Field(None, alias="json", description="Each record is one JSON object.")
    text: TextPayload | None = Field(None, description="Each record is UTF-8 text.")
    csv: CsvPayload | None = Field(None, description="Each record is one line of CSV.")
    avro: AvroPayload | None = Field(None, description="Each record is one Avro datum.")
    protobuf: ProtobufPayload | None = Field(None, description="Each record is one Protobuf message.")

    @property
    def format(self) -> str:
        """Return the format's key in the file."""
        return self.kind.rstrip("_")

    @property
    def asks_registry(self) -> bool:
        """Return True if the writers' schemas come from the environment's schema registry."""
        registered = self.avro or self.protobuf
        return registered is not None and registered.writers == "registry"

    @property
    def schema_files(self) -> dict[str, str]:
        """Return the names of the files in conf/schemas/ by the key that names them."""
        if self.text is not None:
            return {}
        files = {f"payload.{self.format}.schema": self.chosen.schema_}
        registered = self.avro or self.protobuf
        ids = {} if registered is None else registered.ids
        return {**files, **{f"payload.{self.format}.ids.{number}": name for number, name in ids.items()}}
