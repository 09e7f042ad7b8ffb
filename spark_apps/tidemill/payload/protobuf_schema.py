"""Convert a Protobuf message to the columns of its records.

| Protobuf                                                    | column                               |
|-------------------------------------------------------------|--------------------------------------|
| `bool`; `float`, `double`                                   | boolean; float32, float64            |
| `int32`, `sint32`, `sfixed32`; `uint32`, `fixed32`          | int32; int64                         |
| `int64`, `sint64`, `sfixed64`; `uint64`, `fixed64`          | int64; decimal(20, 0)                |
| `string`, an enum (its names); `bytes`                      | string; binary                       |
| a message or group; `repeated`; `map`                       | struct; list; map                    |
| `google.protobuf.Timestamp`; `Duration`                     | timestamp, UTC; seconds, decimal(21, 9) |
| `google.protobuf.Int64Value` and its siblings               | like their value, may be null        |

If a field with presence (`optional`, a message, a member of a `oneof`, proto2) was not written, it is null or
has its declared default. Any other field then has the zero of its type, and a list or map is empty. A message
inside of itself and a message without fields are refused, because no column could store them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tidemill.errors import SpecError
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text
from tidemill.payload.protobuf_files import load_message, place_in_file
from tidemill.payload.timestamps import INSTANT

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
WELL_KNOWN = WRAPPERS | {TIMESTAMP, DURATION}

# Seconds: 12 digits for the longest duration, and nine for its nanoseconds.
SECONDS = pa.decimal128(21, 9)

# Far above the maximum of a table. Messages that use each other in several places multiply.
_MAX_FIELDS = 10_000

_T = FieldDescriptor
_COLUMNS: Mapping[int, pa.DataType] = {
    **dict.fromkeys((_T.TYPE_INT32, _T.TYPE_SINT32, _T.TYPE_SFIXED32), pa.int32()),
    **dict.fromkeys((_T.TYPE_INT64, _T.TYPE_SINT64, _T.TYPE_SFIXED64), pa.int64()),
    **dict.fromkeys((_T.TYPE_UINT32, _T.TYPE_FIXED32), pa.int64()),
    **dict.fromkeys((_T.TYPE_UINT64, _T.TYPE_FIXED64), pa.decimal128(20, 0)),
    _T.TYPE_BOOL: pa.bool_(),
    _T.TYPE_FLOAT: pa.float32(),
    _T.TYPE_DOUBLE: pa.float64(),
    _T.TYPE_STRING: pa.string(),
    _T.TYPE_BYTES: pa.binary(),
    _T.TYPE_ENUM: pa.string(),
}


@dataclass(frozen=True)
class Message:
    """The type of a message.

    Args:
        name: Name with package.
        fields: Fields in the order of their declaration.
    """

    name: str
    fields: tuple[ProtobufField, ...]


@dataclass(frozen=True)
class ProtobufField:
    """One field.

    Args:
        name: Declared name.
        number: Number that identifies it in records.
        kind: Its type, one of `FieldDescriptor.TYPE_…`; for a repeated field, the type of an item.
        column: Column type of one value; for a map, of the whole map.
        message: Message type, if it is a message; for a map, the type of its entries.
        symbols: Names of an enum's numbers, the first name of each.
        is_repeated: True for a list or a map.
        is_map: True for a map.
        has_presence: True if a record shows that it was not written.
        is_required: True if it must be written (proto2).
        default: Value of a field that was not written; only with `has_presence`.
        oneof: Name of the `oneof` that it belongs to.
    """

    name: str
    number: int
    kind: int
    column: pa.DataType
    message: Message | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    is_repeated: bool = False
    is_map: bool = False
    has_presence: bool = False
    is_required: bool = False
    default: Any = None
    oneof: str | None = None

    @property
    def type(self) -> pa.DataType:
        """Return the type of the field's column, list or struct."""
        return pa.list_(self.column) if self.is_repeated and not self.is_map else self.column


@dataclass(frozen=True)
class ProtobufSchema:
    """One message of a descriptor set.

    Args:
        name: File name, for error messages.
        message: Message whose fields are the columns.
        place: Index of the message in its file, as in a registry's header; None if no header can name it
            reliably.
    """

    name: str
    message: Message
    place: tuple[int, ...] | None

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the message's fields."""
        return pa.schema([pa.field(field.name, field.type) for field in self.message.fields])


def load_protobuf_schema(
    descriptor_set: bytes, message: str, name: str, reader: ProtobufSchema | None = None
) -> ProtobufSchema:
    """Build the schema of a message.

    Args:
        descriptor_set: Content of the file, a `FileDescriptorSet`.
        message: Name of the message, with its package.
        name: Name of the file.
        reader: The pipeline's schema, for a writer's one: fields with a number and name that it lacks are
            left out, as in records, so that their types need not be columns.

    Raises:
        SpecError: TIDE-SPEC-064 if it is not a descriptor set, 065 without such a message, 066 for a type
            that no column can store, 024 for a field's name.
    """
    descriptor = load_message(descriptor_set, message, name)
    wanted = None if reader is None else reader.message
    return ProtobufSchema(name, _Reader(name).message(descriptor, (), (), wanted), place_in_file(descriptor))


class _Reader:
    """Walks the messages below one message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields = 0

    def message(
        self, declared: Descriptor, path: Path, above: tuple[str, ...], wanted: Message | None = None
    ) -> Message:
        """Return the type of a message.

        Args:
            declared: Its descriptor.
            path: Path of its use.
            above: Names of the outer messages.
            wanted: The pipeline's message in its place; None for all fields.
        """
        if wanted is None and declared.full_name in above:
            raise self._unsupported(path, f"the message {declared.full_name} inside of itself")
        whole = wanted is None or declared.GetOptions().map_entry or declared.full_name in WELL_KNOWN
        fields = [field for field in declared.fields if whole or _is_wanted(field, wanted)]
        self.fields += len(fields)
        if self.fields > _MAX_FIELDS:
            raise self._unsupported(path, f"more than {_MAX_FIELDS} fields, each counted where it is used")
        if not fields and wanted is None:
            raise self._unsupported(path, f"the message {declared.full_name}, which has no fields")
        self._check_names(fields, path)
        within = (*above, declared.full_name)
        read = {} if wanted is None else {field.number: field.message for field in wanted.fields}
        return Message(
            declared.full_name,
            tuple(
                self._field(field, (*path, field.name), within, read.get(field.number)) for field in fields
            ),
        )

    def _check_names(self, fields: Sequence[FieldDescriptor], path: Path) -> None:
        seen: dict[str, str] = {}
        for field in fields:
            twin = seen.setdefault(field.name.lower(), field.name)
            if twin != field.name:
                raise SpecError(
                    "TIDE-SPEC-024",
                    "A field's name differs from another's only by case.",
                    facts={"schema": self.name, "at": path_text((*path, field.name)), "other": twin},
                    fix="leave one of them out of the schema that the pipeline reads with",
                )

    def _field(
        self, field: FieldDescriptor, path: Path, above: tuple[str, ...], wanted: Message | None
    ) -> ProtobufField:
        inner, column = None, _COLUMNS.get(field.type)
        is_map = False
        if field.message_type is not None:
            is_map = bool(field.message_type.GetOptions().map_entry)
            place = (*path, EACH_ITEM) if field.is_repeated else path
            inner = self.message(field.message_type, place, above, wanted)
            column = _map_type(inner) if is_map else _message_type(inner)
        if column is None:
            raise self._unsupported(path, f"type number {field.type}")
        oneof = field.containing_oneof
        return ProtobufField(
            name=field.name,
            number=field.number,
            kind=field.type,
            column=column,
            message=inner,
            symbols=_symbols(field),
            is_repeated=field.is_repeated,
            is_map=is_map,
            has_presence=field.has_presence,
            is_required=field.is_required,
            default=_default(field),
            # proto3 writes `optional` as a oneof with one field.
            oneof=None if oneof is None or len(oneof.fields) == 1 else oneof.name,
        )

    def _unsupported(self, path: Path, found: str) -> SpecError:
        return SpecError(
            "TIDE-SPEC-066",
            "This Protobuf type cannot be a column.",
            facts={"schema": self.name, "at": path_text(path) or "the top", "type": found},
            fix="leave the field out of the schema that the pipeline reads with; records that have it are "
            "read all the same",
        )


def _is_wanted(field: FieldDescriptor, wanted: Message | None) -> bool:
    """Return True for a wanted number or name; the comparison reports a wanted name with another number."""
    known = () if wanted is None else wanted.fields
    return any(field.number == one.number or field.name == one.name for one in known)


def _message_type(message: Message) -> pa.DataType:
    if message.name == TIMESTAMP:
        return INSTANT
    if message.name == DURATION:
        return SECONDS
    if message.name in WRAPPERS:
        return message.fields[0].column
    return pa.struct([pa.field(field.name, field.type) for field in message.fields])


def _map_type(entry: Message) -> pa.MapType:
    key, value = entry.fields
    return pa.map_(key.column, value.column)


def _symbols(field: FieldDescriptor) -> tuple[tuple[int, str], ...]:
    if field.enum_type is None:
        return ()
    names: dict[int, str] = {}
    for value in field.enum_type.values:
        names.setdefault(value.number, value.name)
    return tuple(names.items())


def _default(field: FieldDescriptor) -> Any:
    """Return the declared default of a field that was not written; for an enum, its number."""
    if not field.has_default_value or not field.has_presence:
        return None
    found = field.default_value
    if isinstance(found, str):
        return found.encode("utf-8")
    return int(found) if isinstance(found, bool) else found
