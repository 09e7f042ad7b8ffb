"""Small documents below a storage root: read, write, put-if-absent, list.

Paths are full paths as `tidemill.names.Layout` makes them; a path outside the root is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError
from obstore.store import LocalStore, from_url

from tidemill.errors import DataError, InternalError


class Store:
    """The objects below one storage root.

    Args:
        root: Absolute local folder (created if missing) or a URI such as `abfss://…`.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        # automatic_cleanup stays off: a folder that becomes empty is Spark's or the user's to remove.
        self._objects = from_url(self.root) if "://" in root else LocalStore(Path(root), mkdir=True)

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
        obstore.put(self._objects, self._key(path), _encode(document))

    def create_json(self, path: str, document: Mapping[str, Any]) -> bool:
        """Write an object unless it exists; of several callers exactly one gets True."""
        try:
            obstore.put(self._objects, self._key(path), _encode(document), mode="create")
        except AlreadyExistsError:
            return False
        return True

    def identity(self, path: str) -> str | None:
        """What changes when an object is replaced, even by the same content; None if there is none."""
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
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

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
