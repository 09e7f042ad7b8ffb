"""The batches of a Spark checkpoint: planned in `offsets/`, finished in `commits/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from tidemill.checkpoint.reading.log_files import (
    CommitsFile,
    OffsetsFile,
    TornFileError,
    parse_commits,
    parse_metadata,
    parse_offsets,
)
from tidemill.errors import GateRefusedError
from tidemill.storage.store import Store

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class PlannedBatch:
    """The part of a file of `offsets/` that the ledger needs.

    Args:
        batch_id: Number of the batch.
        watermark: Event-time watermark that the batch runs with; None before the first event.
        ends: End offset document of each source, by its key in the file: an index in the plan, or a name.
            None for a source without data.
    """

    batch_id: int
    watermark: datetime | None
    ends: Mapping[str, Any]


class CheckpointBatches:
    """Reads the batch logs of one checkpoint directory.

    A missing file is None; a torn file raises GateRefusedError TIDE-CKPT-007.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self.path = path

    def query_id(self) -> str | None:
        """Return the id of the Spark query of the checkpoint; None before its first start."""
        return self._parsed("metadata", parse_metadata)

    def offset_ids(self) -> list[int]:
        """Return the numbers of all batches in `offsets/`, in ascending order."""
        return self._ids("offsets")

    def commit_ids(self) -> list[int]:
        """Return the numbers of all batches in `commits/`, in ascending order."""
        return self._ids("commits")

    def last_planned(self) -> int | None:
        """Return the number of the newest batch in `offsets/`."""
        return max(self.offset_ids(), default=None)

    def last_committed(self) -> int | None:
        """Return the number of the newest batch in `commits/`."""
        return max(self.commit_ids(), default=None)

    def offsets(self, batch_id: int) -> OffsetsFile | None:
        """Return the parsed file `offsets/<batch_id>`; None if it is missing."""
        return self._parsed(f"offsets/{batch_id}", lambda content: parse_offsets(batch_id, content))

    def commits(self, batch_id: int) -> CommitsFile | None:
        """Return the parsed file `commits/<batch_id>`; None if it is missing."""
        return self._parsed(f"commits/{batch_id}", lambda content: parse_commits(batch_id, content))

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """Return the part of `offsets/<batch_id>` that the ledger needs; None if the file is missing."""
        found = self.offsets(batch_id)
        return None if found is None else PlannedBatch(batch_id, found.watermark, found.ends)

    def initial_offset(self, source: str = "0") -> Any:
        """Return where a source, by index or name, began; None if the source does not store it."""
        content = self._store.read(f"{self.path}/sources/{source}/0")
        if content is None:
            return None
        lines = content.lstrip(b"\0").decode().splitlines()
        try:
            return json.loads(lines[-1])
        except (ValueError, IndexError):
            return None

    def ranges_of(self, batch: PlannedBatch) -> dict[str, tuple[Any, Any]]:
        """Return the start and end offset document of each source of a batch, by its key in the file.

        If a source had no data in the batch before, its start is where it began when the checkpoint was
        created.
        """
        before = self.planned(batch.batch_id - 1) if batch.batch_id > 0 else None
        starts = {} if before is None else before.ends
        return {
            key: (self.initial_offset(key) if starts.get(key) is None else starts[key], end)
            for key, end in batch.ends.items()
        }

    def _parsed(self, name: str, parse: Callable[[bytes], Parsed]) -> Parsed | None:
        content = self._store.read(f"{self.path}/{name}")
        if content is None:
            return None
        try:
            return parse(content)
        except TornFileError as error:
            raise self._damaged(name) from error

    def _ids(self, folder: str) -> list[int]:
        names = self._store.list_names(f"{self.path}/{folder}")
        return sorted(int(name) for name in names if name.isdecimal())

    def _damaged(self, name: str) -> GateRefusedError:
        return GateRefusedError(
            "TIDE-CKPT-007",
            "A checkpoint file is torn. Nothing was started, read or written.",
            facts={"file": f"{self.path}/{name}"},
            fix="see which command makes it whole: tidemill checkpoint gate PIPELINE",
            runbook="checkpoint-damaged",
        )
