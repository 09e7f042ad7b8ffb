"""The files that were read at each point to which a pipeline can return.

A rewind may undo what was read after such a point and read it again, so those files must still be in their
place. The points are each generation's oldest rewind target within the rewind window, and the batch of each
backup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from tidemill.checkpoint.current import read_current, read_history
from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import ReadFile, file_log_id, read_file_log, source_names
from tidemill.checkpoint.verbs.backup_manifest import CHECKPOINT, backup_folder, read_manifests
from tidemill.errors import GateRefusedError
from tidemill.names import SOURCE_NAME
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

Found = TypeVar("Found")

# Number of attempts to read a checkpoint while its stream runs: Spark deletes log entries that a compact one
# includes.
ATTEMPTS = 3


@dataclass(frozen=True)
class PointsOfReturn:
    """The files that were read, by point.

    Args:
        generation: The live generation; None before the first start.
        live: Files that it will not read again, by URI.
        read_at: URIs of the files that each other point has read, by the readable name of the point.
    """

    generation: str | None
    live: Mapping[str, ReadFile] = field(default_factory=dict)
    read_at: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def needed_by(self, uri: str) -> tuple[str, ...]:
        """Return the points that would read a file again."""
        return tuple(name for name, read in self.read_at.items() if uri not in read)


def points_of_return(store: Store, pipeline: Pipeline, stream: str, window_began: datetime) -> PointsOfReturn:
    """Read all checkpoints of a pipeline.

    Args:
        store: The storage.
        pipeline: The pipeline.
        stream: Name of the files stream.
        window_began: Beginning of the rewind window.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if a checkpoint is damaged.
    """
    layout, name = pipeline.layout, pipeline.name
    live = read_current(store, layout, name)
    if live is None:
        return PointsOfReturn(None)
    points: dict[str, frozenset[str]] = {}
    there = set(store.list_names(layout.state(name)))
    recorded = {record.generation for record in read_history(store, layout, name)}
    for generation in sorted((recorded & there) - {live.generation}):
        reader = CheckpointReader(store, layout.checkpoint(name, generation))
        if _held(reader):
            points[generation] = frozenset(_read_for_good(reader, stream, window_began))
    for manifest in read_manifests(store, layout, name):
        path = f"{backup_folder(layout, name, manifest.backup)}/{CHECKPOINT}"
        read = files_read(CheckpointReader(store, path), stream, manifest.batch_id)
        points[f"backup {manifest.backup}"] = frozenset(read)
    path = layout.checkpoint(name, live.generation)
    read = _beside_a_stream(store, path, lambda r: _read_for_good(r, stream, window_began))
    return PointsOfReturn(live.generation, read, points)


def all_files_read(store: Store, path: str) -> frozenset[str]:
    """Return the URIs of the files that a checkpoint has read or planned.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if its log is torn.
    """

    def look(reader: CheckpointReader) -> frozenset[str]:
        folders = source_names(reader.path, reader.files)
        return frozenset(entry.path for folder in folders for entry in _file_log(reader, folder))

    return _beside_a_stream(store, path, look)


def files_finished(store: Store, path: str, stream: str) -> frozenset[str]:
    """Return the URIs of the files that a stream had read at its newest finished batch.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if a file of the checkpoint is torn.
    """

    def look(reader: CheckpointReader) -> frozenset[str]:
        finished = reader.commit_ids
        return frozenset(files_read(reader, stream, finished[-1]) if finished else ())

    return _beside_a_stream(store, path, look)


def files_read(reader: CheckpointReader, stream: str, batch_id: int) -> dict[str, ReadFile]:
    """Return the files that every use of a stream had read when a batch was committed, by URI.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if a file of the checkpoint is torn.
    """
    offsets = reader.offsets(batch_id)
    if offsets is None:
        return {}
    keys = [stream] if offsets.is_named or stream != SOURCE_NAME else list(offsets.ends)
    ends = [file_log_id(offsets.ends.get(key)) for key in keys]
    last = min((-1 if end is None else end for end in ends), default=-1)
    folders = [name for name in source_names(reader.path, reader.files) if name in keys]
    logs = [_file_log(reader, folder) for folder in folders]
    read = [{entry.path: entry for entry in log if entry.log_id <= last} for log in logs]
    return {uri: entry for uri, entry in read[0].items() if all(uri in use for use in read)} if read else {}


def last_for_good(reader: CheckpointReader, window_began: datetime) -> int | None:
    """Return the oldest batch that a rewind can reach; None if a rewind may undo all batches.

    Spark may keep batches for longer or shorter than the rewind window. A purged batch cannot be reached,
    even if it is within the window.
    """
    held = _held(reader)
    old = [n for n in held if reader.names[f"commits/{n}"].modified <= window_began]
    if old:
        return old[-1]
    return held[0] if held and held[0] > 0 else None


def _file_log(reader: CheckpointReader, folder: str) -> list[ReadFile]:
    try:
        return read_file_log(reader.store, reader.path, reader.files, folder)
    except TornFileError as error:
        raise GateRefusedError(
            "TIDE-CKPT-007",
            "A checkpoint file is torn. Nothing was started, read or written.",
            facts={"file": error},
            fix="restore the checkpoint from a backup",
            runbook="checkpoint-damaged",
        ) from error


def _beside_a_stream(store: Store, path: str, look: Callable[[CheckpointReader], Found]) -> Found:
    """Try again if a file was deleted between the listing and a read."""
    for _ in range(ATTEMPTS - 1):
        with suppress(GateRefusedError):
            return look(CheckpointReader(store, path))
    return look(CheckpointReader(store, path))


def _held(reader: CheckpointReader) -> list[int]:
    """Return the batches that a rewind can reach, in ascending order."""
    planned = set(reader.offset_ids)
    return [n for n in reader.commit_ids if n in planned and (n == 0 or n - 1 in planned)]


def _read_for_good(reader: CheckpointReader, stream: str, window_began: datetime) -> dict[str, ReadFile]:
    batch_id = last_for_good(reader, window_began)
    return {} if batch_id is None else files_read(reader, stream, batch_id)
