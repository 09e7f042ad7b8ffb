"""Schemas of writers by the numbers in front of their records: from a registry, and kept for good.

A registry never changes the schema of a number. So what it told once is kept below the pipeline's state, and
a backfill of old records needs no registry. A number that the registry does not know is remembered for the
one batch that asked: a repeated batch rejects the same records, whatever was registered meanwhile.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError
from pyspark import TaskContext

from tidemill.payload.registry_client import RegistryClient
from tidemill.payload.registry_content import content_of
from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.objects import open_objects

# What this process has read, by folder and number: each task has its own decoder, and a schema never changes.
_read: dict[tuple[str, int], bytes] = {}


@dataclass(frozen=True)
class RegisteredSchemas:
    """Schemas of one kind.

    Args:
        client: Reads the registry.
        kind: `AVRO` or `PROTOBUF`.
        folder: Where they are kept, for this registry alone: another one has other numbers.
        access: To that folder, for the tasks.
    """

    client: RegistryClient
    kind: str
    folder: str
    access: Access = NO_ACCESS

    def find(self, number: int) -> bytes | None:
        """The schema as a file would hold it; None if the registry does not know the number.

        Raises:
            UnavailableError: TIDE-SRC-020, if it is not kept and the registry does not answer.
            SpecError: TIDE-SRC-021, if the registry refuses the credentials; 022, if it tells no descriptors;
                069, if the schema is of another kind or cannot be read.
        """
        known = _read.get((self.folder, number))
        if known is not None:
            return known
        objects = open_objects(self.folder, self.access)
        batch = _batch()
        unknown = f"unknown/{batch}/{number}"
        if batch and _get(objects, unknown) is not None:
            return None
        kept = _get(objects, f"{number:010d}.json")
        if kept is None:
            found = self.client.by_id(number)
            if found is None:
                if batch:
                    _create(objects, unknown, b"{}")
                return None
            content = content_of(found, self.kind, self.client)
            told = {"v": 1, "registry": self.client.address, "id": number, "kind": found.kind}
            kept = json.dumps({**told, "content": base64.b64encode(content).decode()}).encode()
            _create(objects, f"{number:010d}.json", kept)
        content = base64.b64decode(json.loads(kept)["content"])
        _read[self.folder, number] = content
        return content


def _batch() -> str:
    """Names the batch that this task is of, over restarts; empty outside of a stream."""
    task = TaskContext.get()
    if task is None:
        return ""
    names = "sql.streaming.queryId", "streaming.sql.batchId"
    query, batch = (task.getLocalProperty(name) for name in names)
    return f"{query}-{batch}" if query and batch else ""


def _get(objects: Any, path: str) -> bytes | None:
    try:
        return bytes(obstore.get(objects, path).bytes())
    except (NotFoundError, FileNotFoundError):
        return None


def _create(objects: Any, path: str, content: bytes) -> None:
    try:
        obstore.put(objects, path, content, mode="create")
    except AlreadyExistsError:
        # Another task was first, with the same content.
        return
