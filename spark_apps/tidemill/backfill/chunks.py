"""A range in chunks, each committed separately, so that a long backfill continues where it was stopped.

Rows that are made of one record each are split by records, and every record is read once. Windows, and rows
that are chosen by their time, are split by time at window starts. For a topic, each of those chunks reads all
records up to the seam again, because the time of an event does not determine its offset.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.refusal import refused
from tidemill.backfill.row_origin import EventWindow
from tidemill.backfill.rule import By
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions
from tidemill.sources.offsets import records_between
from tidemill.spec.units import MAX_COUNT, format_duration, parse_duration

# A plan lists each chunk, and users read it.
MOST_CHUNKS = 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Chunk(BaseModel):
    """Size of a chunk: a length of event time, or a number of records."""

    model_config = ConfigDict(frozen=True)

    time: timedelta | None = None
    records: int | None = None

    def text(self) -> str:
        """Return the size in readable form."""
        return f"{self.records} records" if self.time is None else format_duration(self.time)


def parse_chunk(text: str | None) -> Chunk | None:
    """Return the size from `1 day`, or `1000000` for records; None stays None.

    Raises:
        UsageError: TIDE-BACK-001.
    """
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= MAX_COUNT:
        return Chunk(records=int(text))
    try:
        length = parse_duration(text)
    except ValueError:
        length = timedelta()
    if length < timedelta(seconds=1):
        raise UsageError(
            "TIDE-BACK-001",
            "This is no size of a chunk.",
            facts={"value": ascii(text[:40])},
            fix="give a length of event time of at least a second, e.g. 1 day, or a number of records",
            runbook="backfill",
        )
    return Chunk(time=length)


def check_chunk(pipeline: str, by: By, chunk: Chunk, window: EventWindow | None) -> None:
    """Raise if the range cannot be split by this size.

    Raises:
        UsageError: TIDE-BACK-018.
    """
    if by == "everything":
        problem, fix = "A table that is computed from everything has no chunks.", "leave --chunk out"
    elif by == "record" and chunk.records is None:
        problem = "Rows that are made of one record each are cut by records, so that each is read once."
        fix = "give --chunk a number of records, e.g. --chunk 1000000"
    elif by != "record" and chunk.time is None:
        problem = "Rows that are chosen by time are cut by time, not by records."
        fix = "give --chunk a length of event time, e.g. --chunk '1 day'"
    elif by == "window" and window is not None and window.length != window.slide:
        problem = "Windows that overlap have no place to cut: an event there is in windows of both sides."
        fix = "leave --chunk out, or choose smaller ranges yourself"
    else:
        return
    raise _refused(pipeline, problem, {"chunk": chunk.text(), "rows_are_replaced_by": by}, fix)


def cut_times(
    pipeline: str, times: tuple[datetime, datetime], length: timedelta, window: EventWindow | None
) -> list[Bounds]:
    """Return adjacent ranges, split at multiples of `length` since 1970, moved to window starts.

    Raises:
        UsageError: TIDE-BACK-018, if there are too many.
    """
    start, end = times
    length = length if window is None else max(length, window.length)
    _check_count(pipeline, (end - start) / length)
    to_first = (_EPOCH - start) % length
    count = max(0, -((to_first - (end - start)) // length))
    places = (start + to_first + number * length for number in range(count))
    moved = (place if window is None else window.starts_in(place, place)[0] for place in places)
    edges = [start, *sorted({place for place in moved if start < place < end}), end]
    return [Bounds(start=a, end=b) for a, b in itertools.pairwise(edges)]


def cut_offsets(
    pipeline: str, start: Positions, end: Positions, records: int
) -> list[tuple[Positions, Positions]]:
    """Return adjacent ranges of offsets, each with about `records` of all partitions; at least one.

    Raises:
        UsageError: TIDE-BACK-018, if there are too many.
    """
    count = -(-records_between(start, end) // records) or 1
    _check_count(pipeline, count)
    edges = [_between(start, end, number, count) for number in range(count + 1)]
    return list(itertools.pairwise(edges))


def _between(start: Positions, end: Positions, number: int, count: int) -> Positions:
    """Return the offsets at which chunk `number` of `count` begins; a partition may have none left."""
    return {
        topic: {
            partition: first + max(0, end[topic][partition] - first) * number // count
            for partition, first in partitions.items()
        }
        for topic, partitions in start.items()
    }


def _check_count(pipeline: str, count: float) -> None:
    if count > MOST_CHUNKS:
        raise _refused(
            pipeline,
            "These are too many chunks.",
            {"chunks": round(count), "at_most": MOST_CHUNKS},
            "give --chunk a larger size, or choose a smaller range",
        )


def _refused(pipeline: str, problem: str, facts: dict[str, object], fix: str) -> UsageError:
    return refused("TIDE-BACK-018", pipeline, problem, facts, fix)
