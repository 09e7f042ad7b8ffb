"""What a Spark checkpoint says of its batches: planned in `offsets/`, finished in `commits/`.

Formats (Spark 4.2 OffsetSeqLog and CommitLog): a version line, then in `offsets/N` one JSON line of
batch metadata and one line per source (`-` for a source without data); `metadata` is a JSON object with
the query id. `sources/0/0` starts with a NUL byte before its version line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.errors import GateRefusedError
from tidemill.storage.store import Store


@dataclass(frozen=True)
class PlannedBatch:
    """One file of `offsets/`.

    Args:
        batch_id: Its number.
        watermark: Event-time watermark that the batch runs with; None before the first event.
        ends: End offset document of each source, in order; None for a source without data.
    """

    batch_id: int
    watermark: datetime | None
    ends: tuple[Any, ...]


class CheckpointBatches:
    """Reads the batch logs of one checkpoint directory."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self.path = path

    def query_id(self) -> str | None:
        """Id of the Spark query that the checkpoint belongs to; None before its first start."""
        content = self._store.read(f"{self.path}/metadata")
        if content is None:
            return None
        try:
            return str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged("metadata") from error

    def last_planned(self) -> int | None:
        """Number of the newest batch in `offsets/`."""
        return self._last("offsets")

    def last_committed(self) -> int | None:
        """Number of the newest batch in `commits/`."""
        return self._last("commits")

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """What `offsets/<batch_id>` says; None if it is not there.

        Raises:
            GateRefusedError: TIDE-CKPT-007, if the file is torn.
        """
        content = self._store.read(f"{self.path}/offsets/{batch_id}")
        if content is None:
            return None
        try:
            _, metadata, first, *others = content.decode().splitlines()
            milliseconds = json.loads(metadata)["batchWatermarkMs"]
            ends = tuple(None if line == "-" else json.loads(line) for line in (first, *others))
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"offsets/{batch_id}") from error
        watermark = datetime.fromtimestamp(milliseconds / 1000, tz=UTC) if milliseconds else None
        return PlannedBatch(batch_id, watermark, ends)

    def initial_offset(self, source: int = 0) -> Any:
        """Where a source began when the checkpoint was born; None if it kept no such file."""
        content = self._store.read(f"{self.path}/sources/{source}/0")
        if content is None:
            return None
        lines = content.lstrip(b"\0").decode().splitlines()
        try:
            return json.loads(lines[-1])
        except (ValueError, IndexError):
            return None

    def range_of(self, batch_id: int, source: int = 0) -> tuple[Any, Any]:
        """Start and end offset document of one batch and source."""
        batch = self.planned(batch_id)
        before = self.planned(batch_id - 1) if batch_id > 0 else None
        end = batch.ends[source] if batch else None
        start = before.ends[source] if before else self.initial_offset(source)
        return start, end

    def _last(self, folder: str) -> int | None:
        numbers = [int(name) for name in self._store.list_names(f"{self.path}/{folder}") if name.isdecimal()]
        return max(numbers, default=None)

    def _damaged(self, name: str) -> GateRefusedError:
        return GateRefusedError(
            "TIDE-CKPT-007",
            "A checkpoint file is torn. Nothing was started, read or written.",
            facts={"file": f"{self.path}/{name}"},
            fix="restore the checkpoint from a backup",
            runbook="checkpoint-damaged",
        )
