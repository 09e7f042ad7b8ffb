"""The folder of a files source, and the folder of its archived files.

    below the storage root    landing/orders/*/new           archived/landing/orders/*/new
    elsewhere                 file:///data/in/orders/*/new   file:///data/in/archived/orders/*/new

The archive keeps the folders below the source's folder, so that columns from folders exist in both. The
archive's location depends on the path only, so files are still found after a change of `after` or of the
pipeline's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

from tidemill.names import ARCHIVED, Layout, literal_glob, plain_parts

# Characters of a path that Hadoop interprets as a pattern.
WILDCARDS = frozenset("*?[]{}")


@dataclass(frozen=True)
class FilesPlace:
    """The two folders of one files source.

    Args:
        base: Common parent folder of both, without `file://`.
        inside: Folders from `base` to the source's folder, up to the first that contains a `*`.
        pattern: The rest of the declared path, from the first folder that contains a `*`.
    """

    base: str
    inside: tuple[str, ...]
    pattern: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the source's folder up to the first `*` in its path."""
        return "/".join((self.base, *self.inside))

    @property
    def archive(self) -> str:
        """Return the archive's folder."""
        return "/".join((self.base, ARCHIVED, *self.inside))

    @property
    def archive_path(self) -> str:
        """Return the path of the archive for Spark, with the `*` of the declaration."""
        return "/".join((literal_glob(self.archive), *self.pattern))

    def name_of(self, location: str) -> str | None:
        """Return a file's path relative to the source's folder; None if it is not in that folder."""
        return self._below((*plain_parts(self.base), *self.inside), plain_parts(location))

    def name_of_uri(self, uri: str) -> str | None:
        """Return the same for a URI as Spark writes it."""
        return self.name_of(unquote(uri))

    def archived_name_of_uri(self, uri: str) -> str | None:
        """Return the same for the URI of an archived file."""
        return self.archived_name_of(unquote(uri))

    def archived_name_of(self, location: str) -> str | None:
        """Return a file's path relative to the archive's folder; None if it is not in the archive."""
        return self._below((*plain_parts(self.base), ARCHIVED, *self.inside), plain_parts(location))

    def original_prefix(self, uri: str) -> tuple[str, str]:
        """Return the prefix of an archived file's URI and the prefix that the URI had before.

        Both are encoded as Spark encodes the base.
        """
        parts = uri.split("/")
        rest = len(plain_parts(uri)) - len(plain_parts(self.base)) - 1 - len(self.inside)
        archive = parts[: len(parts) - rest]
        place = len(archive) - 1 - len(self.inside)
        return "/".join(archive), "/".join((*archive[:place], *archive[place + 1 :]))

    def _below(self, folder: Sequence[str], parts: Sequence[str]) -> str | None:
        rest = parts[len(folder) :]
        if list(parts[: len(folder)]) != list(folder) or len(rest) <= len(self.pattern):
            return None
        if not all(map(fnmatchcase, rest, self.pattern)):
            return None
        return "/".join(rest)


def files_place(layout: Layout, path: str) -> FilesPlace | None:
    """Return the place of a source that reads `path`; None if that begins with a `*` or is an archive."""
    parts, root = layout.folder_parts(path), plain_parts(layout.root)
    # Characters of the root are never a pattern.
    literal = len(root) if parts[: len(root)] == root else 0
    fixed = next((n for n, part in enumerate(parts) if n >= literal and WILDCARDS & set(part)), len(parts))
    pattern = tuple(parts[fixed:])
    # Paths with Hadoop's other wildcards are not archived (`FilesSource`).
    if any((WILDCARDS - {"*"}) & set(part) for part in pattern):
        return None
    if parts[: len(root)] == root:
        inside = tuple(parts[len(root) : fixed])
        return FilesPlace(layout.root, inside, pattern) if inside and inside[0] != ARCHIVED else None
    # The base has at least the container of an `abfss:` URI, or one folder above a local folder.
    least = 2 if "://" in path and not path.startswith("file://") else 1
    if fixed <= least or parts[fixed - 1] == ARCHIVED:
        return None
    if least == 1:
        base = "/" + "/".join(parts[: fixed - 1])
    else:
        base = f"{path.partition('://')[0]}://{'/'.join(parts[1 : fixed - 1])}"
    return FilesPlace(base, (parts[fixed - 1],), pattern)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return True if one folder is the other or within it; a `*` matches any name."""
    return all(a == b or fnmatchcase(a, b) or fnmatchcase(b, a) for a, b in zip(one, other, strict=False))
