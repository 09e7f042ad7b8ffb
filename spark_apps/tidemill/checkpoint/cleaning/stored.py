"""The stored files of one stream, in the source's folder and in its archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.checkpoint.cleaning.deleted import deleted_sizes
from tidemill.names import Layout
from tidemill.spec.files_place import FilesPlace, files_place
from tidemill.spec.project import Pipeline
from tidemill.storage.files_store import LandedFiles, open_files
from tidemill.storage.store import Store, StoredFile


@dataclass(frozen=True)
class StoredFiles:
    """The files of one stream, by their path below its folder.

    Args:
        store: Store of both folders.
        place: The folders.
        there: Files in the source's folder.
        archived: Files in the archive.
    """

    store: LandedFiles
    place: FilesPlace
    there: Mapping[str, StoredFile]
    archived: Mapping[str, StoredFile]

    @property
    def in_the_way(self) -> list[str]:
        """Return the archived files whose place is taken by another file; an interrupted move leaves both."""
        both = self.archived.keys() & self.there.keys()
        return sorted(name for name in both if self.archived[name].size != self.there[name].size)

    def source_path(self, name: str) -> str:
        """Return the path of a file in the source's folder."""
        return f"{self.place.folder}/{name}"

    def archive_path(self, name: str) -> str:
        """Return the path of a file in the archive."""
        return f"{self.place.archive}/{name}"


def stored_files(layout: Layout, path: str) -> StoredFiles | None:
    """Return the files of a source's folders; None if only Spark can access them, which never archives."""
    place = files_place(layout, path)
    store = None if place is None else open_files(layout, place)
    if place is None or store is None:
        return None
    there = {name: file for file in store.list_files(place.folder) if (name := place.name_of(file.path))}
    archived = {
        name: file for file in store.list_files(place.archive) if (name := place.archived_name_of(file.path))
    }
    return StoredFiles(store, place, there, archived)


def deleted_files(store: Store, pipeline: Pipeline, stream: str, stored: StoredFiles | None) -> list[str]:
    """Return the files that were deleted after they were read and were not put back unchanged."""
    known = deleted_sizes(store, pipeline.layout, pipeline.name, stream)
    there = {} if stored is None else {**stored.archived, **stored.there}
    return sorted(name for name, size in known.items() if name not in there or there[name].size != size)
