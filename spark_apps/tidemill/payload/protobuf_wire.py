"""The message class that parses records: made from a schema, and stricter than it.

With the schema itself, the runtime would misread some records without an error: it truncates a number that is
too long for its field, drops unknown numbers of a closed enum, and does not check the texts of proto2. So
integers are parsed with 64 bits, enums as numbers, texts as bytes, and maps as lists of their entries. All of
these have the same form on the wire. `protobuf_columns.py` checks the values, a whole column at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as ParsedMessage

from tidemill.payload.protobuf_schema import Message, ProtobufField

_T = FieldDescriptor
_PACKAGE = "tidemill"

# The parsed type, where it is another one with the same form on the wire.
_WIDER: Mapping[int, int] = {
    _T.TYPE_INT32: _T.TYPE_INT64,
    _T.TYPE_SINT32: _T.TYPE_SINT64,
    _T.TYPE_UINT32: _T.TYPE_UINT64,
    _T.TYPE_BOOL: _T.TYPE_UINT64,
    _T.TYPE_ENUM: _T.TYPE_INT64,
    _T.TYPE_STRING: _T.TYPE_BYTES,
}


def wire_name(field: ProtobufField) -> str:
    """Return a field's name in the parsed message, which never collides with a name of the runtime."""
    return f"f{field.number}"


# Schemas of one process; a changed declaration starts a new process.
@functools.lru_cache(maxsize=64)
def message_class(message: Message) -> type[ParsedMessage]:
    """Return the class to parse a message with."""
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package=_PACKAGE, syntax="proto2")
    names: dict[Message, str] = {}
    _add(file, message, names)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    made: type[ParsedMessage] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.{names[message]}")
    )
    return made


def _add(file: descriptor_pb2.FileDescriptorProto, message: Message, names: dict[Message, str]) -> str:
    if message in names:
        return names[message]
    names[message] = f"M{len(names)}"
    made = descriptor_pb2.DescriptorProto(name=names[message])
    oneofs = list(dict.fromkeys(field.oneof for field in message.fields if field.oneof is not None))
    made.oneof_decl.extend(descriptor_pb2.OneofDescriptorProto(name=f"o{n}") for n in range(len(oneofs)))
    for field in message.fields:
        parsed = made.field.add(
            name=wire_name(field),
            number=field.number,
            type=_WIDER.get(field.kind, field.kind),
            label=_T.LABEL_REPEATED if field.is_repeated else _T.LABEL_OPTIONAL,
        )
        if field.message is not None:
            parsed.type_name = f".{_PACKAGE}.{_add(file, field.message, names)}"
        if field.oneof is not None:
            parsed.oneof_index = oneofs.index(field.oneof)
    file.message_type.append(made)
    return names[message]
