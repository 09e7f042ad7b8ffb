"""The files of a joined folder at one moment: by them the ledger says which rows a batch was joined with.

A listing is kept under its digest below the pipeline's state, before a commit names it. So the ledger's
entries stay small, and a batch that a crash has interrupted is finished with the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from tidemill.errors import AbsentError
from tidemill.ledger.entry import FilesRead
from tidemill.names import Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Id of the error of a joined folder without files.
NO_FILES = "TIDE-JOIN-001"


@dataclass(frozen=True, order=True)
class ListedFile:
    """One file.

    Args:
        path: URI of the file, with no character encoded.
        size: Bytes.
        modified: Modification time in milliseconds since 1970.
    """

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class FileListing:
    """Files in the order of their paths."""

    files: tuple[ListedFile, ...]

    @staticmethod
    def of(files: Iterable[ListedFile]) -> FileListing:
        """Return the files in order."""
        return FileListing(tuple(sorted(files)))

    @cached_property
    def read(self) -> FilesRead:
        """Return the part of it that ledger entries have."""
        digest = f"sha256:{hashlib.sha256(self._text).hexdigest()}"
        return FilesRead(digest=digest, files=len(self.files), bytes=sum(file.size for file in self.files))

    def changed_in(self, newer: FileListing) -> list[str]:
        """Return the paths of files that are gone or changed in a newer listing."""
        return [file.path for file in self.files if file not in newer.known]

    @cached_property
    def known(self) -> frozenset[ListedFile]:
        """The files, to look one up."""
        return frozenset(self.files)

    @cached_property
    def _text(self) -> bytes:
        rows = [[file.path, file.size, file.modified] for file in self.files]
        return json.dumps({"files": rows}, separators=(",", ":")).encode()

    def keep(self, store: Store, layout: Layout, pipeline: str) -> None:
        """Store the listing. Writing it again makes it the newest one, which `prune` keeps."""
        content = gzip.compress(self._text, mtime=0)
        store.write(layout.listing(pipeline, self.read.digest), content)


def kept_listing(store: Store, layout: Layout, pipeline: str, read: FilesRead) -> FileListing | None:
    """Return the listing that a ledger entry names; None if it is gone."""
    content = store.read(layout.listing(pipeline, read.digest))
    if content is None:
        return None
    rows = json.loads(gzip.decompress(content))["files"]
    return FileListing(tuple(ListedFile(*row) for row in rows))


def listing_of(session: SparkSession, index: Any) -> FileListing:
    """Return the files of one of Spark's file indexes: those that a scan of it reads."""
    jvm: Any = session._jvm
    fields = jvm.io.tidemill.files.FileListing.of(index).split("\0")[:-1]
    rows = zip(fields[0::3], fields[1::3], fields[2::3], strict=True)
    return FileListing.of(ListedFile(path, int(size), int(modified)) for size, modified, path in rows)


def no_files(part: Pipeline, name: str, reason: str) -> AbsentError:
    """The error of a folder to join with that has no files.

    Args:
        part: The pipeline with this source alone.
        name: Name of the source.
        reason: Why there are none.
    """
    folder = part.layout.folder(part.spec.source.chosen.path)
    return AbsentError(
        NO_FILES,
        "A folder to join with has no files, and every row would be joined with nothing.",
        facts={"pipeline": part.name, "source": name, "folder": folder, "reason": reason},
        fix="put the files there, at least one with content; or correct `path` in the pipeline file",
        runbook="source-unavailable",
    )
