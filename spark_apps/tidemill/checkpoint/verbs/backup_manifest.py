"""`backups/<name>/manifest.json`: what a backup holds. Written last; a folder without one is no backup."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.checkpoint.current import BaseTable
from tidemill.checkpoint.procedure.request import check_request_id
from tidemill.errors import DataError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store

MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint"


class BackedUpFile(BaseModel):
    """One file of the checkpoint."""

    model_config = ConfigDict(frozen=True)

    size: int
    sha256: str


def digest_of(content: bytes) -> BackedUpFile:
    """What a manifest says of a file."""
    return BackedUpFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())


class Manifest(BaseModel):
    """What a backup holds: a checkpoint as it was when a batch was committed, and where the tables stood.

    Args:
        backup: Its name.
        batch_id: Newest committed batch in it.
        lineage: Earlier generations whose batches lead to it, each with the last one that does.
        query_id: Of the query it was taken from.
        tables: Each table that there was, with the version that has all of this batch and nothing later of
            this pipeline.
        files: By path below the checkpoint.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    backup: str
    pipeline: str
    generation: str
    batch_id: int
    lineage: Mapping[str, int] = {}
    query_id: str
    taken_at: datetime
    by: str
    why: str
    watermark: datetime | None = None
    tables: Mapping[str, BaseTable]
    files: Mapping[str, BackedUpFile]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


def backup_folder(layout: Layout, pipeline: str, backup: str) -> str:
    """Folder of one backup."""
    return f"{layout.backups(pipeline)}/{check_request_id(backup)}"


def read_manifest(store: Store, layout: Layout, pipeline: str, backup: str) -> Manifest:
    """One backup.

    Raises:
        UsageError: TIDE-CKPT-046, if there is no such backup.
        DataError: TIDE-CKPT-047, if its manifest is damaged.
    """
    path = f"{backup_folder(layout, pipeline, backup)}/{MANIFEST}"
    document = store.read_json(path)
    if document is None:
        raise UsageError(
            "TIDE-CKPT-046",
            "There is no such backup.",
            facts={"pipeline": pipeline, "backup": backup, "file": path},
            fix=f"name one of those that are there: tidemill checkpoint restore {pipeline}",
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise DataError(
            "TIDE-CKPT-047",
            "The manifest of a backup is damaged.",
            facts={"file": path},
            fix="use another backup",
            runbook="restore-checkpoint",
        ) from error


def read_manifests(store: Store, layout: Layout, pipeline: str) -> list[Manifest]:
    """All complete backups, oldest first; one that cannot be read is none."""
    found = []
    for name in store.list_names(layout.backups(pipeline)):
        try:
            found.append(read_manifest(store, layout, pipeline, name))
        except (UsageError, DataError):
            continue
    return found
