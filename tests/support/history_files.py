"""A history as the files that it would have left: checkpoint, tables, record of the live generation."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.support import checkpoint_files
from tests.support.checkpoint_files import with_twin
from tests.support.declared import declared
from tests.support.delta_logs import LogCommit, write_log
from tests.support.histories import History
from tests.support.history_parts import SCHEMA, SETTINGS, TOPIC, Table
from tidemill.checkpoint.current import Current, switch_generation
from tidemill.checkpoint.status import Status, write_status
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def write_history(folder: Path, history: History) -> Pipeline:
    """Write it below a new project folder; returns its pipeline."""
    pipeline = _declare(folder, history)
    store = Store(pipeline.layout.root)
    found = history.checkpoint
    record = Current(pipeline=pipeline.name, generation=found.generation, why="a test", base=found.base)
    switch_generation(store, pipeline.layout, record)
    _write_checkpoint(Path(pipeline.layout.checkpoint(pipeline.name, found.generation)), history)
    for table in history.tables:
        _write_table(pipeline.layout.table(table.name), table)
    _write_table(pipeline.layout.quarantine(pipeline.name), history.quarantine)
    _write_status(store, pipeline, history)
    return pipeline


def _declare(folder: Path, history: History) -> Pipeline:
    (folder / "conf/schemas").mkdir(parents=True)
    (folder / "conf/schemas/orders.json").write_text(SCHEMA)
    tables: list[dict[str, Any]] = [{"delta": {"table": table.name}} for table in history.tables]
    return declared(folder, sinks=tables or [{"console": {}}], payload={"json": {"schema": "orders.json"}})


def _write_checkpoint(folder: Path, history: History) -> None:
    found = history.checkpoint
    folder.mkdir(parents=True)
    if found.planned is not None or found.base is not None:
        _write(folder, history, "metadata", checkpoint_files.metadata(found.query_id))
    if found.initial is not None:
        _write(folder, history, "sources/0/0", checkpoint_files.initial_offsets({TOPIC: found.initial}))
    for batch_id, ends in found.offsets.items():
        planned = checkpoint_files.planned({TOPIC: ends}, conf=SETTINGS)
        _write(folder, history, f"offsets/{batch_id}", planned)
    for batch_id in found.commits:
        ids = {"0": [[_unique(batch_id + 1)]]} if history.stateful else {}
        _write(folder, history, f"commits/{batch_id}", checkpoint_files.committed(ids))
    for version in range(1, found.newest_state + 1):
        _write(folder, history, f"state/0/0/{version}_{_unique(version)}.changelog", b"changes")
    # A driver that is killed leaves files that it had not renamed yet.
    _write(folder, history, f"offsets/.{(found.planned or 0) + 1}.{uuid.uuid4()}.tmp", b"v1")


def _write(folder: Path, history: History, name: str, content: bytes) -> None:
    """Write a file and its checksum twin, unless the driver is killed before it writes the twin."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    files = with_twin(name, content) if history.chance.random() < 0.9 else {name: content}
    for path, written in files.items():
        (folder / path).write_bytes(written)


def _unique(version: int) -> str:
    return str(uuid.UUID(int=version))


def _write_table(path: str, table: Table) -> None:
    if not table.newest_first:
        return
    write_log(
        path,
        [
            LogCommit(
                commit.operation,
                commit.entry,
                None if commit.entry is None else commit.entry.transaction,
                commit.restored_to,
            )
            for commit in reversed(table.newest_first)
            if commit.version > 0
        ],
    )


def _write_status(store: Store, pipeline: Pipeline, history: History) -> None:
    if history.told is None:
        return
    generation, batch_id = history.told
    status = Status.model_validate(
        {
            "pipeline": pipeline.name,
            "mode": "stream",
            "state": "running",
            "run_id": "run-1",
            "started_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "generation": generation,
            "batch_id": batch_id,
        }
    )
    write_status(store, pipeline.layout.status(pipeline.name), status)
