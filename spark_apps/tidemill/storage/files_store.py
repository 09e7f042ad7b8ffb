"""The store that a files source's own files are in, which may lie beside the storage root."""

from __future__ import annotations

import os
import re

from tidemill.names import Layout
from tidemill.spec.files_place import FilesPlace
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

# Names that every client of a store takes for the same object; others may be encoded twice, or not at all.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]*")


def open_files(layout: Layout, place: FilesPlace) -> Store | None:
    """The store of a source's files and of their archive; None for a local folder that is not there."""
    if place.base == layout.root:
        return Store(layout.root)
    if "://" not in place.base:
        return Store(place.base) if os.path.isdir(place.base) else None  # noqa: PTH112  # as it is spelled
    # The bucket or container of the storage root, whose keys open it all.
    bucket = "/".join(place.base.split("/")[:3])
    return Store(bucket, access_to(layout.root))


def has_one_name(name: str) -> bool:
    """Whether Spark and this store call a file by one name."""
    return _PLAIN_NAME.fullmatch(name) is not None
