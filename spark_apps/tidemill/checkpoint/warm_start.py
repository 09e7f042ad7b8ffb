"""A generation that begins with a past: its first batch reads it for the state, and writes no row twice.

    start ─── archive ─── join ─── broker ─── end ─── live
    └────────────── batch 0 ─────────────────┘ └─ batch 1 …

`end` is where the generation before stood, so the tables have what batch 0 reads: rows of windows that were
closed by then are left out, for good. All of it is one batch, because between batches Spark drops what is
behind the watermark, and partitions of a past are not read at one pace.

It lies in the checkpoint, so that every copy of that knows which windows the tables have.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemill.capture.archive import Archive
from tidemill.ledger.entry import Positions
from tidemill.storage.store import Store

# Its file in the checkpoint, beside Spark's own.
WARM_START = "warm_start.json"


class WarmStart(BaseModel):
    """The past of one generation.

    Args:
        start: First offset of each partition.
        end: Where it ends, exclusive, and live reading begins.
        archive: What of it is read from a hub's archive; None if the broker has all.
        written_until: End of the last windows that the tables have; None if they have none.
    """

    model_config = ConfigDict(frozen=True)

    start: Positions
    end: Positions
    archive: Archive | None = None
    written_until: datetime | None = None

    @property
    def join(self) -> Positions:
        """First offset of each partition that the broker must have."""
        return self.start if self.archive is None else self.archive.from_hub(self.start)

    @property
    def records(self) -> int:
        """Offsets of the past; of them `archived` ones are in the archive."""
        return _between(self.start, self.end)

    @property
    def archived(self) -> int:
        """Offsets that are read from the archive."""
        return _between(self.start, self.join)


def read_warm_start(store: Store, checkpoint: str) -> WarmStart | None:
    """The past of a checkpoint; None for one that began without."""
    document = store.read_json(f"{checkpoint}/{WARM_START}")
    return None if document is None else WarmStart.model_validate(document)


def write_warm_start(store: Store, checkpoint: str, warm: WarmStart) -> None:
    """Let a checkpoint that has no batch yet begin with a past."""
    store.write_json(f"{checkpoint}/{WARM_START}", warm.model_dump(mode="json"))


def _between(start: Positions, end: Positions) -> int:
    return sum(
        end[topic][number] - first
        for topic, partitions in start.items()
        for number, first in partitions.items()
    )
