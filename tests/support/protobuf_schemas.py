"""Descriptor sets from a few lines of Protobuf, without protoc; and records by the classes of a set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor

from tidemill.payload.protobuf_files import load_message
from tidemill.payload.protobuf_schema import ProtobufSchema, load_protobuf_schema

# Folder of protoc's output; see the README there.
PROTOC_MADE = Path(__file__).resolve().parents[1] / "data/protobuf"

_FIELD = re.compile(
    r"(?:oneof (?P<oneof>\w+) )?(?:(?P<label>optional|repeated|required) )?"
    r"(?:map<(?P<key>\w+), (?P<item>\w+)>|(?P<kind>\w+)) (?P<name>\w+) = (?P<number>\d+)"
    r"(?: default (?P<default>\S+))?"
)
_LABELS = {"repeated": FieldDescriptor.LABEL_REPEATED, "required": FieldDescriptor.LABEL_REQUIRED}


def message(name: str, *fields: Any) -> descriptor_pb2.DescriptorProto:
    """Return a message of messages and lines, such as `repeated string tags = 2` or `oneof a int64 b = 3`."""
    made = descriptor_pb2.DescriptorProto(name=name)
    for field in fields:
        if isinstance(field, str):
            _add_field(made, field)
        else:
            made.nested_type.append(field)
    return made


def enum(name: str, **numbers: int) -> descriptor_pb2.EnumDescriptorProto:
    """Return an enum."""
    values = [descriptor_pb2.EnumValueDescriptorProto(name=name, number=n) for name, n in numbers.items()]
    return descriptor_pb2.EnumDescriptorProto(name=name, value=values)


def descriptor_set(*types: Any, syntax: str = "proto3") -> bytes:
    """Return one file with messages and enums in the package `shop`."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    for made in types:
        is_enum = isinstance(made, descriptor_pb2.EnumDescriptorProto)
        (file.enum_type if is_enum else file.message_type).append(made)
    for one in file.message_type:
        _add_presence(one, syntax)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def schema(*types: Any, syntax: str = "proto3", of: str = "shop.Order") -> ProtobufSchema:
    """Return the schema of one message of such a file."""
    return load_protobuf_schema(descriptor_set(*types, syntax=syntax), of, "order.desc")


def order(*fields: Any, syntax: str = "proto3") -> ProtobufSchema:
    """Return the schema of a message `Order`."""
    return schema(message("Order", *fields), syntax=syntax)


def made_by(declared: bytes, name: str = "shop.Order") -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(load_message(declared, name, "order.desc"))


def _add_field(made: descriptor_pb2.DescriptorProto, line: str) -> None:
    found = _FIELD.fullmatch(line)
    assert found, line
    field = made.field.add(name=found["name"], number=int(found["number"]))
    field.label = _LABELS.get(found["label"], FieldDescriptor.LABEL_OPTIONAL)
    # This applies to proto3 only; see `_add_presence`.
    field.proto3_optional = found["label"] == "optional"
    kind = found["kind"]
    if found["key"]:
        kind = f"{found['name'].capitalize()}Entry"
        entry = message(kind, f"{found['key']} key = 1", f"{found['item']} value = 2")
        entry.options.map_entry = True
        made.nested_type.append(entry)
        kind, field.label = f"{made.name}.{kind}", FieldDescriptor.LABEL_REPEATED
    scalar = getattr(FieldDescriptor, f"TYPE_{kind.upper()}", None)
    if scalar is None:
        field.type_name = f".shop.{kind}"
    else:
        field.type = scalar
    if found["default"]:
        field.default_value = found["default"]
    if found["oneof"]:
        names = [one.name for one in made.oneof_decl]
        if found["oneof"] not in names:
            made.oneof_decl.add(name=found["oneof"])
            names.append(found["oneof"])
        field.oneof_index = names.index(found["oneof"])


def _add_presence(made: descriptor_pb2.DescriptorProto, syntax: str) -> None:
    """Add what protoc writes for `optional` in proto3: a oneof of one field, after the other oneofs."""
    for field in made.field:
        if syntax != "proto3":
            field.ClearField("proto3_optional")
        elif field.proto3_optional:
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")
