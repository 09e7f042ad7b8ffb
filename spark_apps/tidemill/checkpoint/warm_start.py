"""A warm start: the first batch of a generation reads past records for the state and writes no row twice.

    start ─── archive ─── join ─── broker ─── end ─── live
    └────────────── batch 0 ─────────────────┘ └─ batch 1 …

`end` is where the previous generation stopped, so the tables already have the results of the records in batch
0. Rows of windows that were closed by then are left out permanently. The whole past is one batch, for two
reasons: between batches Spark drops records behind the watermark, and partitions of the past are not read at
the same pace.

The file is stored in the checkpoint, so every copy of the checkpoint knows which windows the tables have.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemill.capture.archive import Archive
from tidemill.ledger.entry import Positions
from tidemill.storage.store import Store

# Its file in the checkpoint, next to Spark's own files.
WARM_START = "warm_start.json"


class WarmStart(BaseModel):
    """The past of one generation.

    Args:
        start: First offset of each partition.
        end: End of the past, exclusive, where live reading begins.
        archive: Part that is read from an event hub's archive; None if the broker has all records.
        written_until: End of the last windows that the tables have; None if they have none.
    """

    model_config = ConfigDict(frozen=True)

    start: Positions
    end: Positions
    archive: Archive | None = None
    written_until: datetime | None = None

    @property
    def join(self) -> Positions:
        """Return the first offset of each partition that is read from the broker."""
        return self.start if self.archive is None else self.archive.from_hub(self.start)

    @property
    def records(self) -> int:
        """Return the number of offsets in the past; `archived` of them are in the archive."""
        return _between(self.start, self.end)

    @property
    def archived(self) -> int:
        """Return the number of offsets that are read from the archive."""
        return _between(self.start, self.join)


def read_warm_start(store: Store, checkpoint: str) -> WarmStart | None:
    """Return the past of a checkpoint; None if it began without one."""
    document = store.read_json(f"{checkpoint}/{WARM_START}")
    return None if document is None else WarmStart.model_validate(document)


def write_warm_start(store: Store, checkpoint: str, warm: WarmStart) -> None:
    """Add a past to a checkpoint that has no batch yet."""
    store.write_json(f"{checkpoint}/{WARM_START}", warm.model_dump(mode="json"))


def _between(start: Positions, end: Positions) -> int:
    return sum(
        end[topic][number] - first
        for topic, partitions in start.items()
        for number, first in partitions.items()
    )
