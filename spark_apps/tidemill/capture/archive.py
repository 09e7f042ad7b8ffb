"""The part of a backfill that is read from an archive: sequence numbers by file, and the start in the hub."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tidemill.capture.spans import clipped
from tidemill.ledger.entry import Positions


class Slice(BaseModel):
    """Events of one file.

    Args:
        path: The file, below the archive's folder.
        partition: Number of its partition.
        first: First sequence number.
        end: End, exclusive; the file contains all numbers in between.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    partition: int
    first: int
    end: int


class Archive(BaseModel):
    """The part of a range that is read from the archive. Each event is in one slice.

    Args:
        slices: Slices in the order of partitions and numbers.
        join: First sequence number of each partition that is read from the hub.
    """

    model_config = ConfigDict(frozen=True)

    slices: tuple[Slice, ...]
    join: Positions

    def between(self, start: Positions, end: Positions) -> tuple[Slice, ...]:
        """Return the slices, limited to a range of offsets."""
        (topic,) = self.join
        found = []
        for each in self.slices:
            number = str(each.partition)
            within = (start[topic].get(number, 0), end[topic].get(number, 0))
            for first, stop in clipped([(each.first, each.end)], within):
                found.append(each.model_copy(update={"first": first, "end": stop}))
        return tuple(found)

    def from_hub(self, start: Positions) -> Positions:
        """Return the offsets from which a range that begins at `start` is read from the hub."""
        return {
            topic: {
                number: max(first, self.join[topic].get(number, 0)) for number, first in partitions.items()
            }
            for topic, partitions in start.items()
        }
