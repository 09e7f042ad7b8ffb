"""What is stored of one stream's files: in the source's folder, and in its archive."""

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
        store: That both folders are in.
        place: The folders.
        there: In the source's folder.
        archived: In the archive.
    """

    store: LandedFiles
    place: FilesPlace
    there: Mapping[str, StoredFile]
    archived: Mapping[str, StoredFile]

    @property
    def in_the_way(self) -> list[str]:
        """Archived files in whose place something else is by now; a move that was cut short left both."""
        both = self.archived.keys() & self.there.keys()
        return sorted(name for name in both if self.archived[name].size != self.there[name].size)

    def source_path(self, name: str) -> str:
        """Where a file came."""
        return f"{self.place.folder}/{name}"

    def archive_path(self, name: str) -> str:
        """Where it goes."""
        return f"{self.place.archive}/{name}"


def stored_files(layout: Layout, path: str) -> StoredFiles | None:
    """Look at a source's folders; None where only Spark can look, which never archives."""
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
    """Files that were deleted after they were read, and that nobody has put back as they were."""
    known = deleted_sizes(store, pipeline.layout, pipeline.name, stream)
    there = {} if stored is None else {**stored.archived, **stored.there}
    return sorted(name for name, size in known.items() if name not in there or there[name].size != size)
