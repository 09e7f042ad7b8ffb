"""Open a folder or a prefix of an object store with obstore."""

from __future__ import annotations

from pathlib import Path

from obstore.store import LocalStore, ObjectStore, from_url

from tidemill.storage.access import access_to
from tidemill.storage.object_stores import Access


def open_objects(root: str, access: Access | None = None) -> ObjectStore:
    """Return the objects below `root`: an absolute local folder, created if missing, or a URI."""
    if "://" not in root:
        # automatic_cleanup stays off: only Spark or the user removes an empty folder.
        return LocalStore(Path(root), mkdir=True)
    given = access_to(root) if access is None else access
    return from_url(root, **given.obstore_arguments()) if given.options else from_url(root)
