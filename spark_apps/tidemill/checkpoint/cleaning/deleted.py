"""What was deleted of a stream's files: `deleted_files/<stream>/<request id>.json`, for good.

Each file is written before the first of its files is deleted, and never changed. A generation's own log
forgets with the generation; these do not, so that nothing replaces rows of files that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidemill.names import Layout
from tidemill.storage.store import Store


def record_deleted(
    store: Store, layout: Layout, place: tuple[str, str, str], names: Sequence[str]
) -> list[str]:
    """Keep the names of files that are about to be deleted; returns those that the request began with.

    Args:
        store: The storage.
        layout: Where.
        place: Pipeline, stream and request id.
        names: Paths below the source's folder.
    """
    pipeline, stream, request_id = place
    path = f"{layout.deleted_files(pipeline, stream)}/{request_id}.json"
    if store.create_json(path, {"v": 1, "at": datetime.now(UTC).isoformat(), "files": list(names)}):
        return list(names)
    return [str(name) for name in (store.read_json(path) or {})["files"]]


def deleted_names(store: Store, layout: Layout, pipeline: str, stream: str) -> set[str]:
    """All that were recorded; one may still be there, or have been put back."""
    folder = layout.deleted_files(pipeline, stream)
    documents = (store.read_json(f"{folder}/{name}") for name in store.list_names(folder))
    return {str(name) for document in documents if document is not None for name in document["files"]}
