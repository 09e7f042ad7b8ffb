"""The content of `state/<pipeline>/`, from one listing and few reads. It also works for orphaned folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemill.checkpoint.current import Current, read_history
from tidemill.checkpoint.holds import Hold, read_holds
from tidemill.checkpoint.procedure.journal import JournalEntry, unfinished_entries
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import TornFileError, parse_metadata
from tidemill.checkpoint.receipts import Receipt, newest_receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.errors import GateRefusedError
from tidemill.names import GENERATION_PATTERN, Layout
from tidemill.storage.store import Store, StoredFile


@dataclass(frozen=True)
class GenerationFiles:
    """Counts of the files of one checkpoint, without the hidden `.crc` files of local disks.

    Args:
        name: Name of the generation.
        path: The checkpoint directory.
        files: Number of files.
        bytes: Total size.
        leftovers: Number of unused files that an interrupted write left.
        newest_at: Time of the last write.
        commits: Numbers in `commits/`, in ascending order.
        query_id: Id from `metadata`; None if the file is missing or torn.
        state_files: Files below `state/`.
    """

    name: str
    path: str
    files: int = 0
    bytes: int = 0
    leftovers: int = 0
    newest_at: datetime | None = None
    commits: tuple[int, ...] = ()
    query_id: str | None = None
    state_files: tuple[StoredFile, ...] = ()


@dataclass(frozen=True)
class StateFolder:
    """One state folder.

    Args:
        name: Name of the pipeline that it would belong to.
        history: Records of live generations, newest first.
        generations: Every checkpoint folder by name.
        backups: Time of each complete backup, by name.
        files: Number of all files.
        bytes: Total size of all files.
        first_batch_at: Time when the oldest kept batch of the live generation was planned.
        last_batch_at: Time when its newest batch was planned.
    """

    name: str
    history: tuple[Current, ...] = ()
    generations: Mapping[str, GenerationFiles] = field(default_factory=dict)
    backups: Mapping[str, datetime] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    first_batch_at: datetime | None = None
    last_batch_at: datetime | None = None
    status: Status | None = None
    receipt: Receipt | None = None
    holds: tuple[Hold, ...] = ()
    unfinished: tuple[JournalEntry, ...] = ()

    @property
    def live(self) -> GenerationFiles | None:
        """Return the live checkpoint; None before the first start, or if its folder is missing."""
        return self.generations.get(self.history[0].generation) if self.history else None


def read_state_folder(store: Store, layout: Layout, name: str) -> StateFolder:
    """Read one state folder; write nothing.

    Raises:
        TidemillError: If a control file is damaged or belongs to another pipeline.
    """
    files = store.list_files(layout.state(name))
    parts = _by_part(files, layout.state(name))
    history = tuple(read_history(store, layout, name)) if "current" in parts else ()
    generations = {
        part: _generation(store, layout.checkpoint(name, part), part, found)
        for part, found in parts.items()
        if re.fullmatch(GENERATION_PATTERN, part)
    }
    return StateFolder(
        name,
        history,
        generations,
        _backups(parts.get("backups", []), layout.backups(name)),
        len(files),
        sum(file.size for file in files),
        *_batch_times(store, layout, name, history),
        read_status(store, layout, name) if "status.json" in parts else None,
        newest_receipt(store, layout, name) if "receipts" in parts else None,
        tuple(read_holds(store, layout, name)) if "holds" in parts else (),
        tuple(unfinished_entries(store, layout, name)) if "journal" in parts else (),
    )


def _by_part(files: Iterable[StoredFile], folder: str) -> dict[str, list[StoredFile]]:
    parts: dict[str, list[StoredFile]] = {}
    for file in files:
        parts.setdefault(file.path[len(folder) + 1 :].partition("/")[0], []).append(file)
    return parts


def _generation(store: Store, path: str, name: str, files: list[StoredFile]) -> GenerationFiles:
    counted = [file for file in files if not _is_twin(file)]
    # Spark writes a log file as `.N.<uuid>.tmp` and renames it.
    leftovers = [file for file in counted if file.path.endswith(".tmp")]
    commits = [_number(file.path[len(path) + 1 :], "commits/") for file in counted]
    return GenerationFiles(
        name,
        path,
        len(counted),
        sum(file.size for file in counted),
        len(leftovers),
        max((file.modified for file in counted), default=None),
        tuple(sorted(number for number in commits if number is not None)),
        _query_id(store, path),
        tuple(file for file in counted if file.path.startswith(f"{path}/state/")),
    )


def _is_twin(file: StoredFile) -> bool:
    return file.path.endswith(".crc") and file.path.rpartition("/")[2].startswith(".")


def _query_id(store: Store, path: str) -> str | None:
    content = store.read(f"{path}/metadata")
    try:
        return None if content is None else parse_metadata(content)
    except TornFileError:
        # The gate reports it for a live checkpoint; for other checkpoints it does not matter.
        return None


def _number(name: str, folder: str) -> int | None:
    number = name.removeprefix(folder)
    return int(number) if name.startswith(folder) and number.isdecimal() else None


def _backups(files: Iterable[StoredFile], folder: str) -> dict[str, datetime]:
    """Return the complete backups: those with a manifest, which is written last."""
    manifests = (
        file for file in files if re.fullmatch(r"[^/]+/manifest\.json", file.path[len(folder) + 1 :])
    )
    return {file.path[len(folder) + 1 :].partition("/")[0]: file.modified for file in manifests}


def _batch_times(
    store: Store, layout: Layout, name: str, history: tuple[Current, ...]
) -> tuple[datetime | None, datetime | None]:
    """Return the times when the oldest and the newest batch of the live generation were planned."""
    if not history:
        return None, None
    batches = CheckpointBatches(store, layout.checkpoint(name, history[0].generation))
    try:
        numbers = batches.offset_ids()
        files = [batches.offsets(number) for number in (numbers[0], numbers[-1])] if numbers else [None, None]
    except GateRefusedError:
        # The gate reports torn files.
        return None, None
    first, last = (None if file is None else file.planned_at for file in files)
    return first, last
