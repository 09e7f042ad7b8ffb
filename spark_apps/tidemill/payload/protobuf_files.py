"""Descriptor sets: the output of `protoc --include_imports --descriptor_set_out` for `.proto` files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from tidemill.errors import SpecError
from tidemill.spec.near_key import near_key

# Name of the file that a schema registry's number refers to; its imports have their own names.
REGISTERED_FILE = "registered.proto"

PROTOC = "protoc --include_imports --descriptor_set_out=order.desc order.proto"

_WELL_KNOWN_FILES = frozenset(
    f"google/protobuf/{name}.proto"
    for name in ("any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)

# Exceptions of the runtime for files that contradict each other or lack an import.
_UNUSABLE = (DecodeError, TypeError, ValueError, KeyError)


def load_message(descriptor_set: bytes, message: str, name: str) -> Descriptor:
    """Find a message.

    Args:
        descriptor_set: Content of the file.
        message: Name with package.
        name: Name of the file.

    Raises:
        SpecError: TIDE-SPEC-064 if it is not a descriptor set, 065 without such a message.
    """
    files = _files(descriptor_set, name)
    known = {found.full_name: found for file in files for found in _messages(file)}
    if message not in known:
        own = sorted(full for full in known if not full.startswith("google.protobuf."))
        near = near_key(message, own) or next((full for full in own if full.endswith(f".{message}")), None)
        raise SpecError(
            "TIDE-SPEC-065",
            "The descriptor set has no such message.",
            facts={"schema": name, "message": message, "known": ", ".join(own[:10]) or "none"},
            fix=f"did you mean {near}?" if near else "name one of them, with its package",
        )
    return known[message]


def place_in_file(message: Descriptor) -> tuple[int, ...] | None:
    """Return the message's index in its file and in its outer messages, as in a registry's header.

    Returns:
        None after a map field in the outer message, because Python serializers count the map's entries as a
        message there, while Java ones do not. None as well in a file that the registered one imports, because
        a header with the registered file's number counts only the messages of that file.
    """
    around = message.containing_type
    if around is None:
        if message.file.name != REGISTERED_FILE and _is_registered(message.file.pool):
            return None
        return (list(message.file.message_types_by_name).index(message.name),)
    above, before = place_in_file(around), list(around.nested_types_by_name).index(message.name)
    if above is None or any(other.GetOptions().map_entry for other in around.nested_types[:before]):
        return None
    return (*above, before)


def _is_registered(pool: DescriptorPool) -> bool:
    try:
        return pool.FindFileByName(REGISTERED_FILE) is not None
    except KeyError:
        return False


def check_descriptor_set(descriptor_set: bytes, name: str) -> None:
    """Raise an error for a descriptor set that lacks an import.

    Raises:
        SpecError: TIDE-SPEC-064.
    """
    _files(descriptor_set, name)


def _files(descriptor_set: bytes, name: str) -> list[FileDescriptor]:
    try:
        declared = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
        if not declared.file:
            raise ValueError("it has no files")
        return _built({file.name: file for file in declared.file})
    except _UNUSABLE as error:
        raise SpecError(
            "TIDE-SPEC-064",
            "The file is not a Protobuf descriptor set with all that it imports.",
            facts={"schema": name, "reason": f"{type(error).__name__}: {error}"[:300]},
            fix=f"make it by `{PROTOC}`",
        ) from error


def _well_known(name: str) -> bytes:
    """Return a well-known file, which registries leave out."""
    module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    return bytes(module.DESCRIPTOR.serialized_pb)


def _built(declared: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> list[FileDescriptor]:
    """Return the files as types, each after its imports."""
    pool, begun = DescriptorPool(), set[str]()

    def add(file: str) -> None:
        if file not in begun and file in declared:
            begun.add(file)
            for imported in declared[file].dependency:
                add(imported)
            pool.AddSerializedFile(declared[file].SerializeToString())
        elif file not in begun and file in _WELL_KNOWN_FILES:
            begun.add(file)
            pool.AddSerializedFile(_well_known(file))

    for file in declared:
        add(file)
    return [pool.FindFileByName(file) for file in declared]


def _messages(file: FileDescriptor) -> list[Descriptor]:
    found, left = [], list(file.message_types_by_name.values())
    while left:
        message = left.pop()
        if not message.GetOptions().map_entry:
            found.append(message)
            left += message.nested_types
    return found
