"""The search for records on which the transform fails, by running it on parts of a range. Pure.

Each part is a stretch of the records in one order. A binary search finds the first failing record: it ends
the shortest prefix that fails. The search then continues with the rest of the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidemill.ledger.entry import Positions

# Returns True if the transform fails on the records from the first place up to, but not including, the
# second.
Fails = Callable[[int, int], bool]


class NotOfOneRecordError(Exception):
    """A part fails, but none of its records fails alone: a random failure, or several records together."""


@dataclass(frozen=True)
class Stretch:
    """Offsets of one partition, `stop` exclusive."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def count(self) -> int:
        """Return the number of offsets; some offsets may have no record."""
        return self.stop - self.start


def stretches_of(start: Positions, end: Positions) -> list[Stretch]:
    """Return a range of offsets in a fixed order; a partition that is new in the range begins at 0."""
    found = [
        Stretch(topic, int(partition), start.get(topic, {}).get(partition, 0), stop)
        for topic, partitions in sorted(end.items())
        for partition, stop in sorted(partitions.items(), key=lambda one: int(one[0]))
    ]
    return [stretch for stretch in found if stretch.count > 0]


def part_of(stretches: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """Return the stretches between two places, counted over all stretches; `stop` is exclusive."""
    return [stretch for stretch in _cut(stretches, start, stop) if stretch.count > 0]


def _cut(stretches: Sequence[Stretch], start: int, stop: int) -> Iterator[Stretch]:
    before = 0
    for stretch in stretches:
        first, last = (min(max(place - before, 0), stretch.count) for place in (start, stop))
        yield Stretch(stretch.topic, stretch.partition, stretch.start + first, stretch.start + last)
        before += stretch.count


def failing_places(count: int, fails: Fails, most: int) -> list[int]:
    """Return the places of the first failing records, in order; each was seen to fail alone.

    Args:
        count: Number of all records.
        fails: Runs the transform on a part.
        most: Maximum number of records to find.

    Raises:
        NotOfOneRecordError: If no single record causes the failure.
    """
    found: list[int] = []
    start = 0
    while len(found) < most and start < count and fails(start, count):
        found.append(_first_failing(start, count, fails))
        start = found[-1] + 1
    return found


def _first_failing(start: int, stop: int, fails: Fails) -> int:
    passed, failed = start, stop
    # Records before `passed` do not fail; at least one record before `failed` does.
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if fails(passed, middle):
            failed = middle
        else:
            passed = middle
    # The failure of the rest was only concluded, perhaps from a random failure. A record is left out only if
    # it fails alone.
    if not fails(passed, failed):
        raise NotOfOneRecordError
    return passed
