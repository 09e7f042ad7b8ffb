"""Where the files of a files source are, and where they go when they are archived.

    below the storage root    landing/orders/*/new           archived/landing/orders/*/new
    elsewhere                 file:///data/in/orders/*/new   file:///data/in/archived/orders/*/new

Folders below the source's stay as they are, so that columns from folders are found in both. Where the
archive is follows from the path alone: files stay findable if `after` or the pipeline's name is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

from tidemill.names import ARCHIVED, Layout, literal_glob, plain_parts

# Characters of a path that Hadoop takes for a pattern.
WILDCARDS = frozenset("*?[]{}")


@dataclass(frozen=True)
class FilesPlace:
    """The two folders of one files source.

    Args:
        base: Folder that both lie below, without `file://`.
        inside: Folders from there to the source's, as far as none holds a `*`.
        pattern: Those that follow in the declaration.
    """

    base: str
    inside: tuple[str, ...]
    pattern: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The source's folder, as far as its path holds no `*`."""
        return "/".join((self.base, *self.inside))

    @property
    def archive(self) -> str:
        """The archive's folder."""
        return "/".join((self.base, ARCHIVED, *self.inside))

    @property
    def archive_path(self) -> str:
        """Return what Spark reads of the archive: with the `*` of the declaration."""
        return "/".join((literal_glob(self.archive), *self.pattern))

    def name_of(self, location: str) -> str | None:
        """A file's path below the source's folder, by its path; None if it is not the source's."""
        return self._below((*plain_parts(self.base), *self.inside), plain_parts(location))

    def name_of_uri(self, uri: str) -> str | None:
        """The same of a URI, as Spark writes it."""
        return self.name_of(unquote(uri))

    def archived_name_of_uri(self, uri: str) -> str | None:
        """The same of an archived file."""
        return self.archived_name_of(unquote(uri))

    def archived_name_of(self, location: str) -> str | None:
        """A file's path below the archive's folder; None if it is not of the archive."""
        return self._below((*plain_parts(self.base), ARCHIVED, *self.inside), plain_parts(location))

    def original_prefix(self, uri: str) -> tuple[str, str]:
        """Of an archived file's URI: what URIs of the archive begin with, and what they began with before.

        As Spark writes them: what it encodes of the base is encoded in both.
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
    """The place of a source that reads `path`; None if that begins with a `*` or is an archive."""
    parts, root = layout.folder_parts(path), plain_parts(layout.root)
    # Of the root no character is a pattern.
    literal = len(root) if parts[: len(root)] == root else 0
    fixed = next((n for n, part in enumerate(parts) if n >= literal and WILDCARDS & set(part)), len(parts))
    pattern = tuple(parts[fixed:])
    # What else Hadoop takes for a pattern is not archived (`FilesSource`).
    if any((WILDCARDS - {"*"}) & set(part) for part in pattern):
        return None
    if parts[: len(root)] == root:
        inside = tuple(parts[len(root) : fixed])
        return FilesPlace(layout.root, inside, pattern) if inside and inside[0] != ARCHIVED else None
    # Of `abfss:`, the container, and of a local folder something above it.
    least = 2 if "://" in path and not path.startswith("file://") else 1
    if fixed <= least or parts[fixed - 1] == ARCHIVED:
        return None
    if least == 1:
        base = "/" + "/".join(parts[: fixed - 1])
    else:
        base = f"{path.partition('://')[0]}://{'/'.join(parts[1 : fixed - 1])}"
    return FilesPlace(base, (parts[fixed - 1],), pattern)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one folder, by its parts, is the other, or in it; a `*` stands for any name."""
    return all(a == b or fnmatchcase(a, b) or fnmatchcase(b, a) for a, b in zip(one, other, strict=False))
