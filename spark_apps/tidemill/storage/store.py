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
        size: In bytes.
        modified: When it was last written.
    """

    path: str
    size: int
    modified: datetime


class Store:
    """The objects below one storage root.

    Args:
        root: Absolute local folder (created if missing) or a URI such as `abfss://…`.
        access: How it is reached; by default as the environment says of a root above it.
    """

    def __init__(self, root: str, access: Access | None = None) -> None:
        self.root = root.rstrip("/")
        self._objects = open_objects(self.root, access)

    def read(self, path: str) -> bytes | None:
        """Content of an object; None if there is none."""
        try:
            return bytes(obstore.get(self._objects, self._key(path)).bytes())
        except (NotFoundError, FileNotFoundError):
            return None

    def read_json(self, path: str) -> dict[str, Any] | None:
        """A JSON object; None if there is none.

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
        """Write an object unless it exists; of several callers exactly one gets True."""
        return self.create(path, _encode(document))

    def write(self, path: str, content: bytes) -> None:
        """Replace an object as a whole; a reader sees the old or the new content, never a mix."""
        obstore.put(self._objects, self._key(path), content)

    def create(self, path: str, content: bytes) -> bool:
        """Write an object unless it exists; of several callers exactly one gets True."""
        try:
            obstore.put(self._objects, self._key(path), content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def copy(self, source: str, target: str) -> None:
        """Copy an object; replaces the target.

        Read and written, because a local copy of obstore is a hard link: what damages one in place would
        damage both.

        Raises:
            FileNotFoundError: If there is no source.
        """
        content = self.read(source)
        if content is None:
            raise FileNotFoundError(source)
        self.write(target, content)

    def copy_within(self, source: str, target: str) -> None:
        """Copy an object that nobody will change in place, such as a data file; no byte passes through here.

        On a local disk both paths name the same data. The target must not exist there.

        Raises:
            FileNotFoundError: If there is no source.
        """
        try:
            obstore.copy(self._objects, self._key(source), self._key(target))
        except NotFoundError as error:
            raise FileNotFoundError(source) from error

    def move(self, source: str, target: str) -> None:
        """Copy, then delete. Repeated after a crash it completes: a missing source is one already moved."""
        if (content := self.read(source)) is not None:
            self.write(target, content)
            self.delete(source)

    def move_within(self, source: str, target: str) -> bool:
        """Move an object of any size, unless it is gone; no byte passes through here. Returns whether it did.

        A local disk renames. Elsewhere it is copied, and deleted once the copy has its size: a crash between
        leaves both, and a repetition completes it.
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
        """Delete an object; a missing one is no error."""
        with suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._objects, self._key(path))

    def remove_empty_folders(self, folder: str) -> None:
        """Remove `folder` and those below it, as far as they hold nothing. Only local disks keep such."""
        self._key(folder)
        for path, _, _ in os.walk(folder, topdown=False) if "://" not in self.root else ():
            with suppress(OSError):
                Path(path).rmdir()

    def delete_folder(self, folder: str) -> None:
        """Delete all below a folder, and on a local disk the folder itself."""
        for file in self.list_files(folder):
            self.delete(file.path)
        self.remove_empty_folders(folder)

    def identity(self, path: str) -> str | None:
        """What changes when an object is replaced; None if there is none.

        By other content, on every store. By equal content not always: S3's tag is the content's digest, and
        its clock counts seconds.
        """
        try:
            meta = obstore.head(self._objects, self._key(path))
        except (NotFoundError, FileNotFoundError):
            return None
        return f"{meta['e_tag']} {meta['last_modified']}"

    def list_names(self, folder: str) -> list[str]:
        """Names of the objects and folders directly below `folder`, sorted."""
        prefix = self._key(folder)
        listing = obstore.list_with_delimiter(self._objects, prefix)
        paths = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        # A set, and without the folder itself, because of the marks that Hadoop puts for folders.
        found = {path.rstrip("/") for path in paths} - {prefix}
        return sorted(path.rpartition("/")[2] for path in found)

    def list_files(self, folder: str) -> list[StoredFile]:
        """All objects below `folder` at any depth, hidden ones too, sorted by path.

        Without the marks that Hadoop puts for folders on object stores: empty objects of a folder's name. The
        mark of a folder that holds nothing is told from no empty file, and stays.
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
