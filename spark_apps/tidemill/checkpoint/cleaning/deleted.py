"""Permanent records of deleted files of a stream: `deleted_files/<stream>/<request id>.json`.

Each record is written before the first of its files is deleted, and is never changed. A generation's own log
disappears with the generation, but these records stay, so that no operation replaces rows of files that are
gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidemill.names import Layout
from tidemill.storage.store import Store


def record_deleted(
    store: Store, layout: Layout, place: tuple[str, str, str], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Record the files that are about to be deleted; return those that the request began with.

    Args:
        store: The storage.
        layout: Paths in the storage.
        place: Pipeline, stream and request id.
        sizes: Size in bytes, by path below the source's folder.
    """
    path = _path(layout, place)
    document: dict[str, Any] = {"v": 1, "at": datetime.now(UTC).isoformat(), "files": dict(sizes)}
    if store.create_json(path, document):
        return dict(sizes)
    return dict((store.read_json(path) or document)["files"])


def read_recorded(store: Store, layout: Layout, place: tuple[str, str, str]) -> dict[str, int] | None:
    """Return the files that a request recorded; None if it recorded nothing."""
    document = store.read_json(_path(layout, place))
    return None if document is None else dict(document["files"])


def deleted_sizes(store: Store, layout: Layout, pipeline: str, stream: str) -> dict[str, int]:
    """Return all recorded files; some may still exist, or may have been put back."""
    folder = layout.deleted_files(pipeline, stream)
    documents = (store.read_json(f"{folder}/{name}") for name in store.list_names(folder))
    return {name: size for document in documents if document for name, size in document["files"].items()}


def _path(layout: Layout, place: tuple[str, str, str]) -> str:
    pipeline, stream, request_id = place
    return f"{layout.deleted_files(pipeline, stream)}/{request_id}.json"
