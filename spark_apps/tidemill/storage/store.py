"""Objects below a storage root: read, write, put-if-absent, list, copy, move, delete.

Paths are full paths as `tidemill.names.Layout` makes them; a path outside the root is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError

from tidemill.errors import DataError, InternalError, UnavailableError
from tidemill.storage.object_stores import Access
from tidemill.storage.objects import open_objects


@dataclass(frozen=True)
class StoredFile:
    """One object.

    Args:
        path: Full path.
        size: Size in bytes.
        modified: Time of the last write.
    """

    path: str
    size: int
    modified: datetime


class Store:
    """The objects below one storage root.

    Args:
        root: Absolute local folder (created if missing) or a URI such as `abfss://…`.
        access: Credentials; by default those of the environment with a root above it.
    """

    def __init__(self, root: str, access: Access | None = None) -> None:
        self.root = root.rstrip("/")
        self._objects = open_objects(self.root, access)

    def read(self, path: str) -> bytes | None:
        """Return the content of an object; None if it does not exist."""
        try:
            return bytes(obstore.get(self._objects, self._key(path)).bytes())
        except (NotFoundError, FileNotFoundError):
            return None

    def read_json(self, path: str) -> dict[str, Any] | None:
        """Return a JSON object; None if it does not exist.

        Raises:
            DataError: TIDE-STOR-001, if the content is not a JSON object.
        """
        content = self.read(path)
        if content is None:
            return None
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise DataError(
                "TIDE-STOR-001",
                "A control file is damaged.",
                facts={"file": path, "bytes": len(content)},
                fix="look at the file; if it is beyond reading, move it away and restore it from a backup",
            )
        return document

    def write_json(self, path: str, document: Mapping[str, Any]) -> None:
        """Replace an object as a whole; a reader sees the old or the new content, never a mix."""
        self.write(path, _encode(document))

    def create_json(self, path: str, document: Mapping[str, Any]) -> bool:
        """Write an object unless it exists; of several callers, exactly one gets True."""
        return self.create(path, _encode(document))

    def write(self, path: str, content: bytes) -> None:
        """Replace an object as a whole; a reader sees the old or the new content, never a mix."""
        obstore.put(self._objects, self._key(path), content)

    def create(self, path: str, content: bytes) -> bool:
        """Write an object unless it exists; of several callers, exactly one gets True."""
        try:
            obstore.put(self._objects, self._key(path), content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def copy(self, source: str, target: str) -> None:
        """Copy an object and replace the target.

        The content is read and written, because a local copy by obstore is a hard link: damage to one file in
        place would damage both.

        Raises:
            FileNotFoundError: If the source does not exist.
        """
        content = self.read(source)
        if content is None:
            raise FileNotFoundError(source)
        self.write(target, content)

    def copy_within(self, source: str, target: str) -> None:
        """Copy an object within the store, such as a data file, which is never changed in place.

        On a local disk, both paths name the same data. The target must not exist there.

        Raises:
            FileNotFoundError: If the source does not exist.
        """
        try:
            obstore.copy(self._objects, self._key(source), self._key(target))
        except NotFoundError as error:
            raise FileNotFoundError(source) from error

    def move(self, source: str, target: str) -> None:
        """Copy, then delete. After a crash, a repetition completes it: a missing source was already moved."""
        if (content := self.read(source)) is not None:
            self.write(target, content)
            self.delete(source)

    def move_within(self, source: str, target: str) -> bool:
        """Move an object of any size within the store; return False if it is gone.

        A local disk renames. Other stores copy, and delete the source when the copy has its size. A crash in
        between leaves both, and a repetition completes the move.
        """
        try:
            if "://" not in self.root:
                obstore.rename(self._objects, self._key(source), self._key(target))
                return True
            obstore.copy(self._objects, self._key(source), self._key(target))
        except (NotFoundError, FileNotFoundError):
            return False
        sizes = {self._size(path) for path in (source, target)}
        if len(sizes) != 1:
            raise UnavailableError(
                "TIDE-STOR-007",
                "An object was copied, and the copy has another size. The original stays.",
                facts={"object": source, "copy": target},
                fix="try again; if it stays so, look at the store's log",
            )
        self.delete(source)
        return True

    def _size(self, path: str) -> int:
        return int(obstore.head(self._objects, self._key(path))["size"])

    def delete(self, path: str) -> None:
        """Delete an object; a missing one is not an error."""
        with suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._objects, self._key(path))

    def remove_empty_folders(self, folder: str) -> None:
        """Remove `folder` and the folders below it, if they are empty.

        Only local disks keep empty folders.
        """
        self._key(folder)
        for path, _, _ in os.walk(folder, topdown=False) if "://" not in self.root else ():
            with suppress(OSError):
                Path(path).rmdir()

    def delete_folder(self, folder: str) -> None:
        """Delete everything below a folder, and on a local disk the folder itself."""
        for file in self.list_files(folder):
            self.delete(file.path)
        self.remove_empty_folders(folder)

    def identity(self, path: str) -> str | None:
        """Return a value that changes when an object is replaced; None if the object does not exist.

        Different content changes it on every store. Equal content may not: S3's tag is the digest of the
        content, and its clock counts seconds.
        """
        try:
            meta = obstore.head(self._objects, self._key(path))
        except (NotFoundError, FileNotFoundError):
            return None
        return f"{meta['e_tag']} {meta['last_modified']}"

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the objects and folders directly below `folder`, sorted."""
        prefix = self._key(folder)
        listing = obstore.list_with_delimiter(self._objects, prefix)
        paths = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        # A set, and without the folder itself, because Hadoop creates marker objects for folders.
        found = {path.rstrip("/") for path in paths} - {prefix}
        return sorted(path.rpartition("/")[2] for path in found)

    def list_files(self, folder: str) -> list[StoredFile]:
        """Return all objects below `folder` at any depth, including hidden ones, sorted by path.

        Hadoop's folder markers on object stores (empty objects with the name of a folder) are left out. The
        marker of an empty folder looks like an empty file, so it stays.
        """
        pages = obstore.list(self._objects, self._key(folder))
        entries = (entry for page in pages for entry in page)
        files = [StoredFile(f"{self.root}/{e['path']}", e["size"], e["last_modified"]) for e in entries]
        folders = {folder, *(file.path.rpartition("/")[0] for file in files)}
        real = (file for file in files if file.size or file.path not in folders)
        return sorted(real, key=lambda file: file.path)

    def _key(self, path: str) -> str:
        if not path.startswith(self.root + "/") or ".." in path.split("/"):
            raise InternalError(
                "TIDE-STOR-002",
                "A path leads out of the storage root.",
                facts={"root": self.root, "path": path},
            )
        return path[len(self.root) + 1 :]


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, default=str).encode()
