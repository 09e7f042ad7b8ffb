"""The files of sources in `sources/<source>/`, and their offset documents.

- Kafka: `0` stores where each partition began when the query was created.
- Files: `<log>` and `<log>.compact` list the files of each micro-batch; a compact file has all entries up to
  its number.
- Delta: its offsets name the table's id and a version. With schema tracking, the table's schemas are in
  `<schemaTrackingLocation>/_schema_log_<table id>…/<n>`, somewhere below the checkpoint.

Format (Spark 4.2, HDFSMetadataLog): a version line, then one JSON document per line. Kafka's file begins with
a NUL byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.storage.store import Store, StoredFile

_COMPACT = ".compact"
_SCHEMA_FILE = re.compile(r"(?:.*/)?_schema_log_([0-9a-f-]{36})[^/]*/([0-9]+)")


@dataclass(frozen=True)
class ReadFile:
    """A file that a files source has put into a batch.

    Args:
        path: URI of the file.
        modified: Its modification time when the source saw it.
        log_id: Number of the log entry, which a batch's offset document names as `logOffset`.
    """

    path: str
    modified: datetime
    log_id: int


@dataclass(frozen=True)
class DeltaOffset:
    """The read position of a Delta source.

    Args:
        table_id: Id of the table; a recreated table has another id.
        version: Version that is being read, or the next one.
        index: Last file of the version that was read; below 0 if none.
        is_snapshot: True if the files are the table's first snapshot instead of the version's changes.
    """

    table_id: str
    version: int
    index: int
    is_snapshot: bool


@dataclass(frozen=True)
class TrackedSchema:
    """A schema in the tracking log of a Delta source.

    Args:
        table_id: Id of the table.
        number: Number of the entry; the source reads with the newest one.
        version: First version of the table with this schema.
        columns: Names of the columns.
    """

    table_id: str
    number: int
    version: int
    columns: tuple[str, ...]


def parse_log(content: bytes) -> list[Any]:
    """Return the JSON documents of one file below `sources/`.

    Raises:
        TornFileError: If it is not what Spark writes.
    """
    try:
        version, *lines = content.lstrip(b"\0").decode().split("\n")
        if version != "v1":
            raise ValueError(f"begins with {version[:20]!a}")
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise TornFileError(str(error)) from error


def parse_delta_offset(document: Any) -> DeltaOffset | None:
    """Return the end offset of a Delta source; None for another source."""
    if not isinstance(document, Mapping) or "reservoirId" not in document:
        return None
    return DeltaOffset(
        str(document["reservoirId"]),
        int(document.get("reservoirVersion", -1)),
        int(document.get("index", -1)),
        bool(document.get("isStartingVersion", False)),
    )


def file_log_id(document: Any) -> int | None:
    """Return the log entry that a files source's end offset names; None for another source."""
    if not isinstance(document, Mapping) or set(document) != {"logOffset"}:
        return None
    return int(document["logOffset"])


def read_file_log(store: Store, path: str, files: Iterable[StoredFile], source: str = "0") -> list[ReadFile]:
    """Return all files that a files source has read, oldest first.

    Args:
        store: The storage.
        path: The checkpoint directory.
        files: Its listing.
        source: Name of the folder below `sources/`.

    Raises:
        TornFileError: If a file of the log is torn; the message names it.
    """
    numbered = _entries(f"{path}/sources/{source}/", files)
    compact = max((number for number, name in numbered.items() if name.endswith(_COMPACT)), default=-1)
    found: dict[str, ReadFile] = {}
    for number in sorted(number for number in numbered if number >= compact):
        for entry in _read_entries(store, numbered[number]):
            found[entry.path] = entry
    return list(found.values())


def gaps_in_file_log(path: str, files: Iterable[StoredFile], source: str = "0") -> list[int]:
    """Return the missing log entries; Spark needs all entries since the newest compact one."""
    numbered = _entries(f"{path}/sources/{source}/", files)
    compact = max((number for number, name in numbered.items() if name.endswith(_COMPACT)), default=0)
    return sorted(set(range(compact, max(numbered, default=-1) + 1)) - set(numbered))


def read_schema_log(store: Store, path: str, files: Iterable[StoredFile]) -> list[TrackedSchema]:
    """Return all schemas that Delta sources have tracked, by table and number.

    Raises:
        TornFileError: If a file of the log is torn; the message names it.
    """
    matches = ((file.path, _SCHEMA_FILE.fullmatch(file.path[len(path) + 1 :])) for file in files)
    found = [_tracked(store, name, match[1], int(match[2])) for name, match in matches if match]
    return sorted(found, key=lambda schema: (schema.table_id, schema.number))


def _tracked(store: Store, path: str, table_id: str, number: int) -> TrackedSchema:
    try:
        (document,) = parse_log(store.read(path) or b"")
        fields = json.loads(document["dataSchemaJson"])["fields"]
        columns = tuple(str(field["name"]) for field in fields)
        return TrackedSchema(table_id, number, int(document["deltaCommitVersion"]), columns)
    except (KeyError, TypeError, ValueError) as error:
        raise TornFileError(f"{path}: {error}") from error


def source_names(path: str, files: Iterable[StoredFile]) -> list[str]:
    """Return the folders below `sources/`: indexes in the plan, or names."""
    prefix = f"{path}/sources/"
    below = (file.path[len(prefix) :] for file in files if file.path.startswith(prefix))
    return sorted({name.partition("/")[0] for name in below})


def _entries(folder: str, files: Iterable[StoredFile]) -> dict[int, str]:
    """Return the paths of the log's files by number; a compact file replaces the plain one."""
    entries: dict[int, str] = {}
    for file in files:
        name = file.path[len(folder) :] if file.path.startswith(folder) else ""
        number = name.removesuffix(_COMPACT)
        if number.isdecimal() and (name.endswith(_COMPACT) or int(number) not in entries):
            entries[int(number)] = file.path
    return entries


def _read_entries(store: Store, path: str) -> list[ReadFile]:
    try:
        return [
            ReadFile(
                str(document["path"]),
                datetime.fromtimestamp(document["timestamp"] / 1000, tz=UTC),
                int(document["batchId"]),
            )
            for document in parse_log(store.read(path) or b"")
            if document.get("action") != "delete"
        ]
    except (KeyError, TypeError, AttributeError, TornFileError) as error:
        raise TornFileError(f"{path}: {error}") from error
