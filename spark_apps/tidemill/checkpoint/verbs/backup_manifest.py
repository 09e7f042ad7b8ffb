"""`backups/<name>/manifest.json`: the content of a backup. A folder without a manifest is not a backup."""

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
    """Return the manifest's description of a file."""
    return BackedUpFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())


class Manifest(BaseModel):
    """The content of a backup: a checkpoint at a committed batch, and the versions of the tables then.

    Args:
        backup: Name of the backup.
        batch_id: Newest committed batch in it.
        lineage: Earlier generations whose batches lead to it, each with its last such batch.
        query_id: Id of the query that it was taken from.
        tables: Each existing table, with the version that has all batches up to this one and no later batch
            of this pipeline.
        files: Files by path below the checkpoint.
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
        """Return the total size of the files, in bytes."""
        return sum(file.size for file in self.files.values())


def backup_folder(layout: Layout, pipeline: str, backup: str) -> str:
    """Return the folder of one backup."""
    return f"{layout.backups(pipeline)}/{check_request_id(backup)}"


def read_manifest(store: Store, layout: Layout, pipeline: str, backup: str) -> Manifest:
    """Return one backup's manifest.

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
    """Return all complete backups, oldest first; unreadable ones are left out."""
    found = []
    for name in store.list_names(layout.backups(pipeline)):
        try:
            found.append(read_manifest(store, layout, pipeline, name))
        except (UsageError, DataError):
            continue
    return found
