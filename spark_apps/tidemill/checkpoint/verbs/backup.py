"""`backup`: a consistent copy of a checkpoint, also while its stream goes on.

Spark writes each file once and deletes the oldest ones. A batch's offsets, state and table commits are all
durable before its `commits/N` appears. So: look at `commits/` first, then list the rest, which holds all that
the newest commit needs; leave out what is newer; copy; and check the copy by itself, because Spark may have
deleted a file between list and copy. Then try again, from a newer batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.procedure.request import check_person, check_reason
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import gaps_in_file_log, source_names
from tidemill.checkpoint.verbs.backup_manifest import (
    CHECKPOINT,
    MANIFEST,
    BackedUpFile,
    Manifest,
    backup_folder,
)
from tidemill.checkpoint.verbs.generation_copy import CopyPlan, plan_copy
from tidemill.checkpoint.verbs.table_points import table_paths, version_at
from tidemill.errors import GateRefusedError, UsageError
from tidemill.names import Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Copies that Spark may spoil by deleting old files meanwhile; each next one is a newer batch, whose files
# are younger.
ATTEMPTS = 3

# Files copied at once: hides the latency of an object store without crowding out a driver on this machine.
PARALLEL_COPIES = 8


@dataclass(frozen=True)
class BackupRequest:
    """Who asks for a backup, why, and when; the moment names it."""

    by: str
    why: str
    at: datetime

    @property
    def name(self) -> str:
        """Name of the backup: names sort by time."""
        return f"{self.at:%Y%m%dt%H%M%S%f}z"


def take_backup(store: Store, pipeline: Pipeline, request: BackupRequest) -> Manifest:
    """Copy the live generation as it was at its newest committed batch.

    1. Newest commit, then a listing.
    2. Copy.
    3. Check the copy; if it is not whole, begin again.
    4. The tables' versions at that batch.
    5. Manifest: from here on it is a backup. A crash before leaves a folder that `prune` removes.
    6. Audit entry.

    Raises:
        UsageError: TIDE-CKPT-048, if no batch was ever committed.
        GateRefusedError: TIDE-CKPT-049, if the copy is not whole.
    """
    check_person(request.by)
    check_reason(request.why)
    layout = pipeline.layout
    generation = _live_generation(store, pipeline)
    folder = backup_folder(layout, pipeline.name, request.name)
    problems: list[str] = []
    for _ in range(ATTEMPTS):
        # 1.
        reader = CheckpointReader(store, layout.checkpoint(pipeline.name, generation))
        batch_id = _newest_commit(reader.batches, pipeline)
        try:
            plan = plan_copy(reader, batch_id, _query_id(reader))
        except (LookupError, TornFileError) as error:
            problems = [str(error)]
            continue
        # 2.
        copied = _copy_all(reader, plan, f"{folder}/{CHECKPOINT}")
        # 3.
        problems = copy_problems(store, f"{folder}/{CHECKPOINT}", batch_id, copied)
        if not problems:
            # 4.
            manifest = _manifest(store, pipeline, request, (generation, batch_id), copied)
            # 5.
            store.create_json(f"{folder}/{MANIFEST}", manifest.model_dump(mode="json"))
            # 6.
            _audit(store, layout, manifest)
            return manifest
        _remove(store, folder)
    raise GateRefusedError(
        "TIDE-CKPT-049",
        "No whole copy could be made: the checkpoint is damaged, or changes faster than it can be copied.",
        facts={"pipeline": pipeline.name, "generation": generation, "missing": "; ".join(problems[:5])},
        fix=f"look at it: tidemill checkpoint inspect {pipeline.name}; then try again",
        runbook="backup-checkpoint",
    )


def plan_backup(store: Store, pipeline: Pipeline) -> dict[str, Any]:
    """What a backup would copy now. Writes nothing.

    Raises:
        UsageError: TIDE-CKPT-048, if no batch was ever committed.
    """
    generation = _live_generation(store, pipeline)
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    batch_id = _newest_commit(reader.batches, pipeline)
    return {
        "generation": generation,
        "batch_id": batch_id,
        "files": len(reader.files),
        "bytes": sum(file.size for file in reader.files),
    }


def copy_problems(store: Store, path: str, batch_id: int, expected: Mapping[str, BackedUpFile]) -> list[str]:
    """Why a checkpoint cannot go on after `batch_id`, or is not what was copied; empty if it is whole."""
    reader = CheckpointReader(store, path)
    sizes = {name: file.size for name, file in reader.names.items()}
    changed = [name for name, file in expected.items() if sizes.get(name) != file.size]
    try:
        missing = [
            name
            for name, found in (
                ("metadata", reader.query_id),
                (f"offsets/{batch_id}", reader.offsets(batch_id)),
                (f"commits/{batch_id}", reader.commits(batch_id)),
            )
            if found is None
        ]
        state = [problem.what for problem in reader.state_problems(batch_id + 1)]
    except GateRefusedError as error:
        return [str(error.facts.get("file", error.problem))]
    empty = (name for name, size in sizes.items() if name.startswith("sources/") and size == 0)
    sources = (
        f"sources/{source}/{gap}"
        for source in source_names(path, reader.files)
        for gap in gaps_in_file_log(path, reader.files, source)
    )
    return [*changed, *missing, *state, *empty, *sources]


def _live_generation(store: Store, pipeline: Pipeline) -> str:
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None:
        raise _nothing_committed(pipeline)
    return live.generation


def _newest_commit(batches: CheckpointBatches, pipeline: Pipeline) -> int:
    batch_id = batches.last_committed()
    if batch_id is None:
        raise _nothing_committed(pipeline)
    return batch_id


def _query_id(reader: CheckpointReader) -> str:
    if reader.query_id is None:
        raise LookupError("metadata")
    return reader.query_id


def _nothing_committed(pipeline: Pipeline) -> UsageError:
    return UsageError(
        "TIDE-CKPT-048",
        "No batch of this pipeline was ever committed; there is nothing to back up.",
        facts={"pipeline": pipeline.name},
        fix="start it first",
    )


def _copy_all(reader: CheckpointReader, plan: CopyPlan, target: str) -> dict[str, BackedUpFile]:
    store = reader.store

    def copy(name: str) -> tuple[str, BackedUpFile] | None:
        content = plan.written.get(name)
        if content is None:
            content = store.read(f"{reader.path}/{name}")
        if content is None:
            # Deleted since the listing. Whether it was needed, the check of the copy tells.
            return None
        store.write(f"{target}/{name}", content)
        return name, BackedUpFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        copied = threads.map(copy, [*plan.copied, *plan.written])
        return dict(file for file in copied if file is not None)


def _manifest(
    store: Store,
    pipeline: Pipeline,
    request: BackupRequest,
    taken: tuple[str, int],
    files: Mapping[str, BackedUpFile],
) -> Manifest:
    generation, batch_id = taken
    folder = backup_folder(pipeline.layout, pipeline.name, request.name)
    reader = CheckpointReader(store, f"{folder}/{CHECKPOINT}")
    commit = reader.commits(batch_id)
    # 4.
    tables = {
        table: version_at(path, pipeline.name, generation, batch_id)
        for table, path in table_paths(pipeline).items()
    }
    return Manifest(
        backup=request.name,
        pipeline=pipeline.name,
        generation=generation,
        batch_id=batch_id,
        query_id=reader.query_id or "",
        taken_at=datetime.now(UTC),
        by=request.by,
        why=request.why,
        watermark=None if commit is None else commit.next_watermark,
        tables=tables,
        files=files,
    )


def _remove(store: Store, folder: str) -> None:
    for file in store.list_files(folder):
        store.delete(file.path)


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
