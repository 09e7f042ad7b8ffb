"""`restore`: a pipeline continues from a backup, and its tables return to their versions in the backup.

The backup may be in another storage root, because its paths are relative.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.backup_manifest import (
    CHECKPOINT,
    BackedUpFile,
    Manifest,
    backup_folder,
    digest_of,
)
from tidemill.checkpoint.verbs.generation_copy import PARALLEL_COPIES, copy_files, plan_copy
from tidemill.checkpoint.verbs.go_back import NewGeneration, plan_of_prospect, restoring
from tidemill.checkpoint.verbs.prospect import AskBroker, Origin, look_ahead
from tidemill.errors import DataError
from tidemill.ledger.proof import Side
from tidemill.ledger.table_restore import RestoreTable
from tidemill.names import Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store


@dataclass(frozen=True)
class Backup:
    """A backup in this storage root or another one."""

    store: Store
    layout: Layout
    manifest: Manifest

    @property
    def reader(self) -> CheckpointReader:
        """Return the reader of the checkpoint in the backup."""
        folder = backup_folder(self.layout, self.manifest.pipeline, self.manifest.backup)
        return CheckpointReader(self.store, f"{folder}/{CHECKPOINT}")

    @property
    def origin(self) -> Origin:
        """Return the backup as a checkpoint to continue from."""
        found = self.manifest
        side = Side(found.pipeline, {**found.lineage, found.generation: found.batch_id})
        tables = {name: table.id for name, table in found.tables.items()}
        return Origin(self.reader, found.generation, side, tables)


def plan_restore(store: Store, pipeline: Pipeline, backup: Backup, ask_broker: AskBroker) -> dict[str, Any]:
    """Return the plan: the new generation, and for each table the version to restore and what that undoes.

    Raises:
        DataError: TIDE-CKPT-047, if files of the backup are missing or damaged.
        GateRefusedError: See `look_ahead`.
    """
    manifest = backup.manifest
    _check_files(backup)
    live = read_current(store, pipeline.layout, pipeline.name)
    plan = plan_of_prospect(look_ahead(pipeline, backup.origin, live, manifest.batch_id, ask_broker))
    return {
        **plan,
        "backup": manifest.backup,
        "taken_at": manifest.taken_at.isoformat(),
        "files": len(manifest.files),
        "bytes": manifest.size,
    }


def restore_steps(  # noqa: PLR0913  # plan arguments, actions and progress callback
    store: Store,
    pipeline: Pipeline,
    request: Request,
    plan: Mapping[str, Any],
    acts: tuple[Backup, RestoreTable],
    told: Told = nobody_told,
) -> tuple[Step, ...]:
    """Return the core's steps with the backup's files."""
    backup, restore = acts
    fill = partial(_copy, backup, store, told)
    return NewGeneration(store, pipeline.layout, request, plan).steps(fill, restoring(restore))


def _copy(backup: Backup, store: Store, told: Told, folder: str, query_id: str) -> None:
    """Copy the backup under a new query id.

    Raises:
        DataError: TIDE-CKPT-047, if the backup was damaged since the plan.
    """
    reader, manifest = backup.reader, backup.manifest
    copied = copy_files(reader, plan_copy(reader, manifest.batch_id, query_id), store, folder, told)
    _compare(backup, {**copied, "metadata": manifest.files["metadata"]})


def _check_files(backup: Backup) -> None:
    def read(name: str) -> tuple[str, BackedUpFile] | None:
        content = backup.store.read(f"{backup.reader.path}/{name}")
        return None if content is None else (name, digest_of(content))

    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        found = threads.map(read, backup.manifest.files)
        _compare(backup, dict(file for file in found if file is not None))


def _compare(backup: Backup, found: Mapping[str, BackedUpFile]) -> None:
    for name, file in backup.manifest.files.items():
        if found.get(name) != file:
            raise _damaged(f"{backup.reader.path}/{name}", found[name].size if name in found else None)


def _damaged(path: str, size: int | None) -> DataError:
    return DataError(
        "TIDE-CKPT-047",
        "A file of the backup is missing or not what was backed up.",
        facts={"file": path, "bytes": size},
        fix="use another backup",
        runbook="restore-checkpoint",
    )
