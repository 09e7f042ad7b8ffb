"""Which records of a range does the transform fail at? Found by running it on parts of the range. Pure.

Each part is a stretch of the records in one order. The first failing record is where the shortest failing
beginning ends: as many runs as the number of records can be halved. The rest of the range is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidemill.ledger.entry import Positions

# Whether the transform fails at the records from one place to before another.
Fails = Callable[[int, int], bool]


class NotOfOneRecordError(Exception):
    """A part fails, and none of its records does by itself: by chance, or by several together."""


@dataclass(frozen=True)
class Stretch:
    """Offsets of one partition, `stop` exclusive."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def count(self) -> int:
        """Of the offsets; not each needs to be a record."""
        return self.stop - self.start


def stretches_of(start: Positions, end: Positions) -> list[Stretch]:
    """A range of offsets, in a fixed order; a partition that was not there before begins at 0."""
    found = [
        Stretch(topic, int(partition), start.get(topic, {}).get(partition, 0), stop)
        for topic, partitions in sorted(end.items())
        for partition, stop in sorted(partitions.items(), key=lambda one: int(one[0]))
    ]
    return [stretch for stretch in found if stretch.count > 0]


def part_of(stretches: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """Those from one place to before another, counted over all stretches."""
    return [stretch for stretch in _cut(stretches, start, stop) if stretch.count > 0]


def _cut(stretches: Sequence[Stretch], start: int, stop: int) -> Iterator[Stretch]:
    before = 0
    for stretch in stretches:
        first, last = (min(max(place - before, 0), stretch.count) for place in (start, stop))
        yield Stretch(stretch.topic, stretch.partition, stretch.start + first, stretch.start + last)
        before += stretch.count


def failing_places(count: int, fails: Fails, most: int) -> list[int]:
    """Places of the first records that fail, rising; each was seen to fail by itself.

    Args:
        count: Of all records.
        fails: Asked of parts.
        most: How many to look for.

    Raises:
        NotOfOneRecordError: If no record is to blame.
    """
    found: list[int] = []
    start = 0
    while len(found) < most and start < count and fails(start, count):
        found.append(_first_failing(start, count, fails))
        start = found[-1] + 1
    return found


def _first_failing(start: int, stop: int, fails: Fails) -> int:
    passed, failed = start, stop
    # What is before `passed` does not fail; something before `failed` does.
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if fails(passed, middle):
            failed = middle
        else:
            passed = middle
    # That the rest failed was concluded, perhaps from a failure by chance. A record is only left out for
    # one of its own.
    if not fails(passed, failed):
        raise NotOfOneRecordError
    return passed
