"""`backup`: a consistent copy of a checkpoint, even while its stream runs, and its tables' versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.current import Current, read_current
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.procedure.request import check_person, check_reason
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.backup_manifest import CHECKPOINT, MANIFEST, Manifest, backup_folder
from tidemill.checkpoint.verbs.tables import stands_at
from tidemill.checkpoint.verbs.whole_copy import (
    NothingCommittedError,
    NotWholeError,
    WholeCopy,
    make_whole_copy,
    newest_commit,
)
from tidemill.errors import GateRefusedError, UsageError
from tidemill.names import Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store


@dataclass(frozen=True)
class BackupRequest:
    """The operator who asks for a backup, the reason and the time; the time names the backup."""

    by: str
    why: str
    at: datetime

    @property
    def name(self) -> str:
        """Return the name of the backup; names sort by time."""
        return f"{self.at:%Y%m%dt%H%M%S%f}z"


def take_backup(
    store: Store, pipeline: Pipeline, request: BackupRequest, told: Told = nobody_told
) -> Manifest:
    """Copy the live generation as it was at its newest committed batch.

    1. Make a whole copy of the checkpoint.
    2. Find the tables' versions at its batch, proven by their logs.
    3. Write the manifest, which makes the folder a backup. A crash before this step leaves a folder that
       `prune` removes.
    4. Write the audit entry.

    Raises:
        UsageError: TIDE-CKPT-048, if no batch was ever committed.
        GateRefusedError: TIDE-CKPT-049 if the copy is not whole, -080 or -092 if a table does not agree with
            the checkpoint.
    """
    check_person(request.by)
    check_reason(request.why)
    live = _live(store, pipeline)
    folder = backup_folder(pipeline.layout, pipeline.name, request.name)
    source = pipeline.layout.checkpoint(pipeline.name, live.generation)
    # 1.
    try:
        copied = make_whole_copy(store, source, f"{folder}/{CHECKPOINT}", told)
    except NothingCommittedError as error:
        raise _nothing_committed(pipeline) from error
    except NotWholeError as error:
        raise _not_whole(pipeline, live.generation, error.missing) from error
    # 2.
    manifest = _manifest(store, pipeline, request, live, copied)
    # 3.
    store.create_json(f"{folder}/{MANIFEST}", manifest.model_dump(mode="json"))
    # 4.
    _audit(store, pipeline.layout, manifest)
    return manifest


def plan_backup(store: Store, pipeline: Pipeline) -> dict[str, Any]:
    """Return what a backup would copy now. Write nothing.

    Raises:
        UsageError: TIDE-CKPT-048, if no batch was ever committed.
    """
    generation = _live(store, pipeline).generation
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    try:
        batch_id = newest_commit(reader)
    except NothingCommittedError as error:
        raise _nothing_committed(pipeline) from error
    return {
        "generation": generation,
        "batch_id": batch_id,
        "files": len(reader.files),
        "bytes": sum(file.size for file in reader.files),
    }


def _live(store: Store, pipeline: Pipeline) -> Current:
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None:
        raise _nothing_committed(pipeline)
    return live


def _nothing_committed(pipeline: Pipeline) -> UsageError:
    return UsageError(
        "TIDE-CKPT-048",
        "No batch of this pipeline was ever committed; there is nothing to back up.",
        facts={"pipeline": pipeline.name},
        fix="start it first",
    )


def _not_whole(pipeline: Pipeline, generation: str, missing: Sequence[str]) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-049",
        "No whole copy could be made: the checkpoint is damaged, or changes faster than it can be copied.",
        facts={"pipeline": pipeline.name, "generation": generation, "missing": "; ".join(missing[:5])},
        fix=f"see what is damaged: tidemill checkpoint inspect {pipeline.name}; if nothing is, try again",
        runbook="backup-checkpoint",
    )


def _manifest(
    store: Store, pipeline: Pipeline, request: BackupRequest, live: Current, copied: WholeCopy
) -> Manifest:
    folder = backup_folder(pipeline.layout, pipeline.name, request.name)
    reader = CheckpointReader(store, f"{folder}/{CHECKPOINT}")
    commit = reader.commits(copied.batch_id)
    # 2.
    return Manifest(
        backup=request.name,
        pipeline=pipeline.name,
        generation=live.generation,
        batch_id=copied.batch_id,
        lineage=live.side.up_to(copied.batch_id),
        query_id=reader.query_id or "",
        taken_at=datetime.now(UTC),
        by=request.by,
        why=request.why,
        watermark=None if commit is None else commit.next_watermark,
        tables=stands_at(pipeline, live, copied.batch_id),
        files=copied.files,
    )


def _audit(store: Store, layout: Layout, manifest: Manifest) -> None:
    entry = AuditEntry(
        verb="backup",
        pipeline=manifest.pipeline,
        request_id=manifest.backup,
        by=manifest.by,
        why=manifest.why,
        at=manifest.taken_at,
        after=manifest.model_dump(mode="json", exclude={"files"}),
    )
    write_audit(store, layout, entry)
