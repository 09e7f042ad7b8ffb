"""How the records of a topic are decoded: `payload: {<format>: {...}}`."""

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
        description="Records that do not fit: put them into the quarantine table and go on, or stop.",
    ),
]
# Kafka's default limit is 1 MB; a larger record is nearly always a mistake, and one of them in each
# partition at once must fit the Python worker's memory beside a whole batch.
MaxRecordBytes = Annotated[
    Size,
    Field(
        2**20, description="Longest record that is decoded; longer ones are invalid.", validate_default=True
    ),
]
KeepRaw = Annotated[bool, Field(description="Keep the undecoded record as the column kafka_value.")]
Tombstones = Annotated[
    Literal["reject", "keep"],
    Field(
        description="Records without a value, by which compacted topics delete a key. reject: they are "
        "invalid. keep: rows whose decoded columns are null; `kafka_key` says whose they are."
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
        description="With `framing: confluent`, who tells each writer's schema: `ids`, or `registry`, the "
        "environment's `schema_registry`. What it tells is kept with the pipeline's state."
    ),
]
# Registries count up from 1, in four bytes.
SchemaId = Annotated[int, Field(ge=0, lt=2**31)]


class JsonPayload(Strict):
    """Each record is one JSON object."""

    schema_: JsonSchemaFile = Field(
        alias="schema", description="File in conf/schemas/ with the record's JSON Schema."
    )
    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"


class TextPayload(Strict):
    """Each record is a text in UTF-8; it becomes the column `value`."""

    on_invalid: OnInvalid = "quarantine"
    max_record_bytes: MaxRecordBytes = 2**20
    keep_raw: KeepRaw = False
    tombstones: Tombstones = "reject"


class CsvPayload(Strict):
    """Each record is one line of CSV without a header: the fields of the schema, in its order."""

    schema_: JsonSchemaFile = Field(
        alias="schema",
        description="File in conf/schemas/ with a JSON Schema: its properties are the fields, in order. An "
        "empty field is null, an empty one in quotes an empty text.",
    )
    separator: str = Field(",", description="The character between two fields.", min_length=1, max_length=1)
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
        description="What stands before the datum: nothing, or a zero byte and the number of the writer's "
        "schema in four bytes, as the serializers of schema registries write it.",
    )
    ids: dict[SchemaId, AvroFile] = Field(
        {},
        description="With `framing: confluent`, the file with each writer's schema, e.g. {7: event.avsc}. "
        "A record with another number is invalid.",
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
        description="File in conf/schemas/ with a descriptor set, as Spark's from_protobuf takes it: "
        "`protoc --include_imports --descriptor_set_out=order.desc order.proto`.",
    )
    message: str = Field(
        description="Name of the message with its package; its fields are the columns.",
        pattern=MESSAGE_PATTERN,
        max_length=MAX_SENTENCE,
    )
    framing: Literal["plain", "confluent"] = Field(
        "plain",
        description="What stands before the message: nothing, or a zero byte, the number of the writer's "
        "schema in four bytes and the message's place in it, as the serializers of schema registries write.",
    )
    ids: dict[SchemaId, ProtobufFile] = Field(
        {},
        description="With `framing: confluent`, the file with each writer's schema, e.g. {7: event.desc}. "
        "A record with another number is invalid.",
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
    """Exactly one format of the records; without `payload:` they stay bytes."""

    json_: JsonPayload | None = Field(None, alias="json", description="Each record is one JSON object.")
    text: TextPayload | None = Field(None, description="Each record is a text in UTF-8.")
    csv: CsvPayload | None = Field(None, description="Each record is one line of CSV.")
    avro: AvroPayload | None = Field(None, description="Each record is one Avro datum.")
    protobuf: ProtobufPayload | None = Field(None, description="Each record is one Protobuf message.")

    @property
    def format(self) -> str:
        """The key, as it is written."""
        return self.kind.rstrip("_")

    @property
    def asks_registry(self) -> bool:
        """Whether the environment's schema registry tells the writers' schemas."""
        registered = self.avro or self.protobuf
        return registered is not None and registered.writers == "registry"

    @property
    def schema_files(self) -> dict[str, str]:
        """Names of the files in conf/schemas/, by the key that names them."""
        if self.text is not None:
            return {}
        files = {f"payload.{self.format}.schema": self.chosen.schema_}
        registered = self.avro or self.protobuf
        ids = {} if registered is None else registered.ids
        return {**files, **{f"payload.{self.format}.ids.{number}": name for number, name in ids.items()}}
