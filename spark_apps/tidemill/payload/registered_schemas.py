"""Writers' schemas by the numbers at the beginning of their records, from a registry and stored permanently.

A registry never changes the schema of a number. So its answers are stored below the pipeline's state, and a
backfill of old records needs no registry. If a number is not stored yet, a batch decides once if it is known.
All its tasks and its repetitions use the decision of the first task, even if a registry answers two tasks
differently, or a schema is registered in the meantime.
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

# Schemas that this process has read, by folder and number. Each task has its own decoder, and a schema never
# changes.
_read: dict[tuple[str, int], bytes] = {}

_KNOWN, _UNKNOWN = b'{"known": true}', b'{"known": false}'


@dataclass(frozen=True)
class RegisteredSchemas:
    """Schemas of one kind.

    Args:
        client: Reads the registry.
        kind: `AVRO` or `PROTOBUF`.
        folder: Folder of the stored schemas of this registry; another registry has other numbers.
        access: Credentials for that folder, for the tasks.
    """

    client: RegistryClient
    kind: str
    folder: str
    access: Access = NO_ACCESS

    def find(self, number: int) -> bytes | None:
        """Return the schema as in a file; None if the registry does not know the number.

        Raises:
            UnavailableError: TIDE-SRC-020, if it is not stored and the registry does not answer.
            SpecError: TIDE-SRC-021, if the registry refuses the credentials; 022, if it returns no
                descriptors; 069, if the schema is of another kind or cannot be read.
        """
        known = _read.get((self.folder, number))
        if known is not None:
            return known
        objects = open_objects(self.folder, self.access)
        decision = f"decided/{_batch()}/{number}" if _batch() else None
        decided = None if decision is None else _get(objects, decision)
        if decided == _UNKNOWN:
            return None
        kept = _get(objects, f"{number:010d}.json") or self._ask(number, objects)
        if decided is None and decision is not None:
            # A stored schema may come from another task of this batch, or from a backfill.
            decided = _create(objects, decision, _UNKNOWN if kept is None else _KNOWN)
            if decided == _UNKNOWN:
                return None
        # A task that decides "known" has stored the schema before.
        kept = kept or (_get(objects, f"{number:010d}.json") if decided == _KNOWN else None)
        if kept is None:
            return None
        content = base64.b64decode(json.loads(kept)["content"])
        _read[self.folder, number] = content
        return content

    def _ask(self, number: int, objects: Any) -> bytes | None:
        """Ask the registry, and store the answer."""
        found = self.client.by_id(number)
        if found is None:
            return None
        content = content_of(found, self.kind, self.client)
        told = {"v": 1, "registry": self.client.address, "id": number, "kind": found.kind}
        kept = json.dumps({**told, "content": base64.b64encode(content).decode()}).encode()
        return _create(objects, f"{number:010d}.json", kept)


def _batch() -> str:
    """Return the name of this task's batch, stable over restarts; empty outside of a stream."""
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


def _create(objects: Any, path: str, content: bytes) -> bytes:
    """Write a file unless it exists; return the existing content."""
    try:
        obstore.put(objects, path, content, mode="create")
    except AlreadyExistsError:
        return bytes(obstore.get(objects, path).bytes())
    return content
