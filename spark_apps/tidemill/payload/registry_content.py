"""A registered schema in the form of a file in conf/schemas: Avro's JSON, or a descriptor set."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from tidemill.errors import SpecError, UsageError
from tidemill.payload.avro_references import inlined
from tidemill.payload.avro_schema import load_avro_document
from tidemill.payload.protobuf_files import REGISTERED_FILE, check_descriptor_set
from tidemill.payload.registry_client import AVRO, PROTOBUF, Registered, RegistryClient

# Maximum number of schemas that refer to each other; more are a mistake.
_MAX_REFERENCES = 200


# Subjects that can name a file.
_SUBJECT = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,70}")


def pulled_file(client: RegistryClient, subject: str, version: int) -> tuple[str, bytes]:
    """Return name and content of the file with a version of a subject, after a check of the content.

    Raises:
        UsageError: TIDE-CLI-033, if there is none.
        SpecError: TIDE-SPEC-061, if it is not an Avro schema of a record; 064, if its descriptors do not fit
            together; also as `content_of`.
    """
    found = client.by_version(subject, version) if _SUBJECT.fullmatch(subject) else None
    if found is None:
        raise UsageError(
            "TIDE-CLI-033",
            "The schema registry has no such version of the subject, or its name cannot be a file's.",
            facts={"registry": client.address, "subject": ascii(subject[:80]), "version": version},
            fix="correct the name or the version",
        )
    content = content_of(found, found.kind if found.kind == PROTOBUF else AVRO, client)
    name = f"{subject}.v{version}.{'desc' if found.kind == PROTOBUF else 'avsc'}"
    if found.kind == PROTOBUF:
        check_descriptor_set(content, name)
    else:
        load_avro_document(_document(content), name)
    return name, content


def content_of(found: Registered, kind: str, client: RegistryClient) -> bytes:
    """Return a schema in the form of a file in conf/schemas: Avro's JSON, or a descriptor set.

    Raises:
        SpecError: TIDE-SPEC-069, if it is of another kind, or refers to a missing schema; TIDE-SRC-022, if
            the registry does not return descriptors.
    """
    if found.kind != kind:
        raise _unusable(found.kind, f"it is no schema of {kind}")
    if kind == AVRO:
        return found.schema.encode() if not found.references else _with_references(found, client)
    files: dict[str, Any] = {}
    _add_file(REGISTERED_FILE, found, client, files)
    return bytes(descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString())


def _with_references(found: Registered, client: RegistryClient) -> bytes:
    """Return an Avro schema as one document."""
    referred = [_document(other.schema) for other in _referred(found, client)]
    try:
        return json.dumps(inlined(_document(found.schema), referred), ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise _unusable(AVRO, str(error)) from error


def _document(content: str | bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None  # None is refused as not being a schema.


def _referred(found: Registered, client: RegistryClient) -> Iterator[Registered]:
    """Yield the schemas that a schema refers to, at any depth, each once."""
    seen: set[tuple[str, int]] = set()
    pending = list(found.references)
    while pending:
        _, subject, version = pending.pop()
        if (subject, version) in seen:
            continue
        seen.add((subject, version))
        if len(seen) > _MAX_REFERENCES:
            raise _unusable(AVRO, f"it refers to more than {_MAX_REFERENCES} others")
        referred = _by_version(client, AVRO, subject, version)
        pending += referred.references
        yield referred


def _by_version(client: RegistryClient, kind: str, subject: str, version: int) -> Registered:
    """Return a schema that another one refers to."""
    referred = client.by_version(subject, version)
    if referred is None:
        raise _unusable(kind, f"it refers to {subject}, version {version}, which is not there")
    return referred


def _add_file(name: str, found: Registered, client: RegistryClient, files: dict[str, Any]) -> None:
    """Add a file and those that it imports."""
    if name in files:
        return
    if len(files) >= _MAX_REFERENCES:
        raise _unusable(PROTOBUF, f"it refers to more than {_MAX_REFERENCES} others")
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(found.schema, validate=True))
    except (ValueError, DecodeError) as error:
        raise SpecError(
            "TIDE-SRC-022",
            "The schema registry does not tell descriptors of Protobuf schemas.",
            facts={"registry": client.address, "asked": "?format=serialized"},
            fix="name each writer's descriptor set in `ids`",
        ) from error
    file.name = name
    files[name] = file
    for imported, subject, version in found.references:
        _add_file(imported, _by_version(client, PROTOBUF, subject, version), client, files)


def _unusable(kind: str, reason: str) -> SpecError:
    return SpecError(
        "TIDE-SPEC-069",
        "A registered schema cannot be read with.",
        facts={"kind": kind, "reason": reason},
        fix="register the schema as one document of the payload's kind",
    )
