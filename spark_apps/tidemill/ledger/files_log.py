"""The log of a files sink's folder, read without a JVM: the files of each batch, and the owner of the folder.

Spark's log `_spark_metadata` has one entry per batch. Every tenth entry, `<batch>.compact`, repeats all
earlier ones, which are deleted after a while. The format is Spark's (FileStreamSinkLog): a line with the
version, then one JSON object for each file.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.errors import DataError
from tidemill.names import Layout
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

LOG = "_spark_metadata"
CLAIMS = "_tidemill_owner"

_ENTRY = re.compile(r"(?P<batch>\d+)(?P<compact>\.compact)?")


class Claim(BaseModel):
    """A pipeline's claim of a folder, stored in the folder by the first driver of a generation.

    Args:
        root: Storage root of the pipeline, because the pipeline's name alone is not unique across roots.
        pipeline: Name of the pipeline.
        generation: Generation of its checkpoint.
        after_batch: Newest batch of the checkpoint at that time; -1 for none.
        layout: Format, partitions and columns of the files.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    root: str
    pipeline: str
    generation: str
    after_batch: int
    layout: str


@dataclass(frozen=True)
class FilesCommit:
    """The files of one batch, or of several batches whose entries Spark has merged.

    Args:
        batch_id: The batch, or the last one.
        first_batch: The first batch.
        committed_at: Time when the entry was written.
        files: Paths relative to the folder.
        size: Total size of the files, in bytes.
    """

    batch_id: int
    first_batch: int
    committed_at: datetime
    files: tuple[str, ...]
    size: int

    @property
    def batches(self) -> str:
        """Return the batches as readable text."""
        return (
            str(self.batch_id) if self.first_batch == self.batch_id else f"{self.first_batch}-{self.batch_id}"
        )


@dataclass(frozen=True)
class FilesLog:
    """The log and the claims of one folder.

    Args:
        folder: The folder.
        store: Store of the folder.
        commits: Commits, newest first.
        claims: Claims, oldest first.
    """

    folder: str
    store: Store
    commits: Sequence[FilesCommit]
    claims: Sequence[Claim]

    @property
    def newest_batch(self) -> int:
        """Return the number of the newest batch; -1 for none."""
        return self.commits[0].batch_id if self.commits else -1

    @property
    def files(self) -> list[str]:
        """Return the paths of all files in the log, relative to the folder."""
        return [file for commit in reversed(self.commits) for file in commit.files]

    def claim_of(self, batch_id: int) -> Claim | None:
        """Return the claim under which a batch was written."""
        return next((claim for claim in reversed(self.claims) if claim.after_batch < batch_id), None)

    def read(self, file: str) -> bytes:
        """Return the content of a file in the log.

        Raises:
            DataError: TIDE-LEDG-002, if the file is gone.
        """
        content = self.store.read(f"{self.folder}/{file}")
        if content is None:
            raise _unreadable(self.folder, f"{file} is gone")
        return content


def read_files_log(layout: Layout, path: str) -> FilesLog | None:
    """Return the log of a files sink's folder; None if no batch was written there.

    Args:
        layout: Layout of the environment.
        path: The sink's `path`.

    Raises:
        DataError: TIDE-LEDG-002, if the log cannot be read.
    """
    folder = _plain(layout.folder(path))
    store = _store_of(layout, folder)
    if store is None:
        return None
    entries = {file.path.rpartition("/")[2]: file for file in store.list_files(f"{folder}/{LOG}")}
    found = sorted(
        (int(match["batch"]), bool(match["compact"]), name)
        for name in entries
        if (match := _ENTRY.fullmatch(name))
    )
    commits: list[FilesCommit] = []
    named: set[str] = set()
    for batch, is_compact, name in found:
        files = _files_in(store, folder, name)
        fresh = {file: size for file, size in files.items() if file not in named}
        named |= fresh.keys()
        # If the entries before a compact one are gone, it is unknown which batch wrote which file.
        first = 0 if is_compact and not commits else batch
        commits.append(FilesCommit(batch, first, entries[name].modified, tuple(fresh), sum(fresh.values())))
    return FilesLog(folder, store, commits[::-1], _claims(store, folder)) if commits else None


def _files_in(store: Store, folder: str, name: str) -> dict[str, int]:
    """Return the size of each file in an entry."""
    content = store.read(f"{folder}/{LOG}/{name}")
    files: dict[str, int] = {}
    try:
        for line in (content or b"").splitlines()[1:]:
            action = json.loads(line)
            if action["action"] == "add":
                files[_relative(folder, str(action["path"]))] = int(action["size"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(folder, f"entry {name}: {error}") from error
    return files


def _relative(folder: str, uri: str) -> str:
    """Return a file's path below the folder; Spark writes URIs with encoded characters."""
    whole = unquote(urlsplit(uri).path)
    above = urlsplit(folder).path if "://" in folder else folder
    if not whole.startswith(f"{above}/"):
        raise ValueError(f"{uri} is not below the folder")
    return whole[len(above) + 1 :]


def _claims(store: Store, folder: str) -> list[Claim]:
    found = []
    for file in store.list_files(f"{folder}/{CLAIMS}"):
        name = file.path.rpartition("/")[2]
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            found.append(Claim.model_validate_json(store.read(file.path) or b""))
        except ValidationError:
            # Left by a driver that was killed while it wrote the claim.
            continue
    return sorted(found, key=lambda claim: claim.after_batch)


def _plain(folder: str) -> str:
    """Return a folder as in its files' paths: local paths are normalised and have no scheme."""
    if folder.startswith("file:"):
        folder = unquote(urlsplit(folder).path)
    return folder.rstrip("/") if "://" in folder else posixpath.normpath(folder)


def _store_of(layout: Layout, folder: str) -> Store | None:
    if folder.startswith(f"{layout.root}/"):
        return Store(layout.root)
    if "://" not in folder:
        # Opening a store creates its folder, and a reader must not.
        return Store(folder) if Path(folder).is_dir() else None
    # The bucket or container of another address, which the keys of the storage root also open.
    return Store("/".join(folder.split("/")[:3]), access_to(layout.root))


def _unreadable(folder: str, reason: str) -> DataError:
    return DataError(
        "TIDE-LEDG-002",
        "The log of a folder of files cannot be read.",
        facts={"folder": folder, "reason": reason},
        fix="bring the folder's files back from a backup; Spark cannot read the folder without them either",
    )
