"""The store of a files source's files, which may be outside of the storage root."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tidemill.names import Layout
from tidemill.spec.files_place import FilesPlace
from tidemill.storage.access import access_to
from tidemill.storage.store import Store, StoredFile

# Names that every client of a store maps to the same object. Clients may encode other names twice, or not at
# all.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]*")


class LandedFiles(Protocol):
    """Files that other systems put into a folder, under names of their choice."""

    @property
    def root(self) -> str:
        """Return the folder or bucket of the files."""

    def list_files(self, folder: str) -> list[StoredFile]:
        """Return the files below a folder at any depth, sorted by path."""

    def move_within(self, source: str, target: str) -> bool:
        """Move a file of any size; return False if it is gone."""

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is not an error."""

    def remove_empty_folders(self, folder: str) -> None:
        """Remove a folder and those below it, if they are empty. Only local disks keep empty folders."""


class LocalFiles:
    """Files of a local folder. obstore fails if a folder name has a control character.

    Args:
        root: The folder.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def list_files(self, folder: str) -> list[StoredFile]:
        """See `LandedFiles`."""
        paths = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)  # noqa: PTH118  # as it is spelled
        found = []
        for path in paths:
            # A file that was moved in the meantime is not listed.
            with suppress(FileNotFoundError):
                status = os.stat(path)  # noqa: PTH116  # as it is spelled
                found.append(StoredFile(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
        return sorted(found, key=lambda file: file.path)

    def move_within(self, source: str, target: str) -> bool:
        """See `LandedFiles`."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(source).rename(target)
        except FileNotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        """See `LandedFiles`."""
        Path(path).unlink(missing_ok=True)

    def remove_empty_folders(self, folder: str) -> None:
        """See `LandedFiles`."""
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()


def open_files(layout: Layout, place: FilesPlace) -> LandedFiles | None:
    """Return the store of a source's files and of their archive; None without the local folder."""
    if "://" not in place.base:
        return LocalFiles(place.base) if os.path.isdir(place.base) else None  # noqa: PTH112  # as it is spelled
    if place.base == layout.root:
        return Store(layout.root)
    # The bucket or container of the storage root; its keys give access to the whole bucket.
    bucket = "/".join(place.base.split("/")[:3])
    return Store(bucket, access_to(layout.root))


def has_one_name(name: str) -> bool:
    """Return True if Spark and this store use the same name for a file."""
    return _PLAIN_NAME.fullmatch(name) is not None
