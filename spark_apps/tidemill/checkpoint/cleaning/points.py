"""What of a files source has been read at each point that its pipeline can go back to.

A rewind may leave out what was read after such a point, and read it again: these files must be where they
were. Points are, for each generation, the batch that a rewind comes to which goes as far back as it may, and
each backup's batch.
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

# Looks at a checkpoint whose stream goes on: Spark deletes entries of its log that a compact one holds.
ATTEMPTS = 3


@dataclass(frozen=True)
class PointsOfReturn:
    """What was read, by point.

    Args:
        generation: The live one; None before the first start.
        live: Files that it has read for good, by URI.
        read_at: For each other point, by what a person calls it: URIs of the files that it has read.
    """

    generation: str | None
    live: Mapping[str, ReadFile] = field(default_factory=dict)
    read_at: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def needed_by(self, uri: str) -> tuple[str, ...]:
        """Points that would read a file again."""
        return tuple(name for name, read in self.read_at.items() if uri not in read)


def points_of_return(store: Store, pipeline: Pipeline, stream: str, window_began: datetime) -> PointsOfReturn:
    """Look at all checkpoints of a pipeline.

    Args:
        store: The storage.
        pipeline: Which.
        stream: Name of the files stream.
        window_began: The oldest moment that a rewind goes back to.

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
    """Files that a checkpoint knows as read, or planned, by URI.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if its log is torn.
    """

    def look(reader: CheckpointReader) -> frozenset[str]:
        folders = source_names(reader.path, reader.files)
        return frozenset(entry.path for folder in folders for entry in _file_log(reader, folder))

    return _beside_a_stream(store, path, look)


def files_finished(store: Store, path: str, stream: str) -> frozenset[str]:
    """Files that a stream had read by the newest batch that is finished, by URI.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if a file of the checkpoint is torn.
    """

    def look(reader: CheckpointReader) -> frozenset[str]:
        finished = reader.commit_ids
        return frozenset(files_read(reader, stream, finished[-1]) if finished else ())

    return _beside_a_stream(store, path, look)


def files_read(reader: CheckpointReader, stream: str, batch_id: int) -> dict[str, ReadFile]:
    """Files that a stream had read when a batch was committed, by URI; of several uses, those that all have.

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
    """The batch that a rewind comes to which goes as far back as it may; None if it may undo all of them.

    Batches are held longer than they can be rewound, or shorter: older ones that Spark has purged cannot be
    gone back to, however young they are.
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
    """Look again where a file was deleted between the listing and a read."""
    for _ in range(ATTEMPTS - 1):
        with suppress(GateRefusedError):
            return look(CheckpointReader(store, path))
    return look(CheckpointReader(store, path))


def _held(reader: CheckpointReader) -> list[int]:
    """Batches that can be gone back to, rising."""
    planned = set(reader.offset_ids)
    return [n for n in reader.commit_ids if n in planned and (n == 0 or n - 1 in planned)]


def _read_for_good(reader: CheckpointReader, stream: str, window_began: datetime) -> dict[str, ReadFile]:
    batch_id = last_for_good(reader, window_began)
    return {} if batch_id is None else files_read(reader, stream, batch_id)
