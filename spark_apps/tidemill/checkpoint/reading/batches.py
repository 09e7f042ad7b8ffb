"""What a Spark checkpoint says of its batches: planned in `offsets/`, finished in `commits/`."""

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
    """One file of `offsets/`, as the ledger tells it.

    Args:
        batch_id: Its number.
        watermark: Event-time watermark that the batch runs with; None before the first event.
        ends: End offset document of each source, by its key in the file: a place in the plan, or a name. None
            for a source without data.
    """

    batch_id: int
    watermark: datetime | None
    ends: Mapping[str, Any]


class CheckpointBatches:
    """Reads the batch logs of one checkpoint directory.

    A file that is not there is None; one that is torn raises GateRefusedError TIDE-CKPT-007.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self.path = path

    def query_id(self) -> str | None:
        """Id of the Spark query that the checkpoint belongs to; None before its first start."""
        return self._parsed("metadata", parse_metadata)

    def offset_ids(self) -> list[int]:
        """Numbers of all batches in `offsets/`, rising."""
        return self._ids("offsets")

    def commit_ids(self) -> list[int]:
        """Numbers of all batches in `commits/`, rising."""
        return self._ids("commits")

    def last_planned(self) -> int | None:
        """Number of the newest batch in `offsets/`."""
        return max(self.offset_ids(), default=None)

    def last_committed(self) -> int | None:
        """Number of the newest batch in `commits/`."""
        return max(self.commit_ids(), default=None)

    def offsets(self, batch_id: int) -> OffsetsFile | None:
        """All that `offsets/<batch_id>` says; None if it is not there."""
        return self._parsed(f"offsets/{batch_id}", lambda content: parse_offsets(batch_id, content))

    def commits(self, batch_id: int) -> CommitsFile | None:
        """All that `commits/<batch_id>` says; None if it is not there."""
        return self._parsed(f"commits/{batch_id}", lambda content: parse_commits(batch_id, content))

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """What the ledger needs of `offsets/<batch_id>`; None if it is not there."""
        found = self.offsets(batch_id)
        return None if found is None else PlannedBatch(batch_id, found.watermark, found.ends)

    def initial_offset(self, source: str = "0") -> Any:
        """Where a source, by place or name, began at the checkpoint's birth; None if it kept no such file."""
        content = self._store.read(f"{self.path}/sources/{source}/0")
        if content is None:
            return None
        lines = content.lstrip(b"\0").decode().splitlines()
        try:
            return json.loads(lines[-1])
        except (ValueError, IndexError):
            return None

    def ranges_of(self, batch: PlannedBatch) -> dict[str, tuple[Any, Any]]:
        """Start and end offset document of each source of a batch, by its key in the file.

        A source of which the batch before had no data yet starts where it began at the checkpoint's birth.
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
