"""How rows may come to a pipeline, which must not change its result."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.errors import UsageError


@dataclass(frozen=True)
class Arrival:
    """How rows come, and what happens meanwhile.

    Args:
        cuts: Before which rows a new batch begins, ascending.
        shuffle: Seed of the order within each batch; 0 leaves it as it is.
        crash: After so many steps of its batches, each run ends and is started again; 0 for none.
        backfill: Whether a backfill computes again, behind each batch, all that no later row can change.
    """

    cuts: tuple[int, ...] = ()
    shuffle: int = 0
    crash: int = 0
    backfill: bool = False

    def batches(self, count: int) -> list[list[int]]:
        """Places of so many rows, batch by batch."""
        ends = [*self.cuts, count]
        batches = [list(range(start, end)) for start, end in zip([0, *self.cuts], ends, strict=True)]
        if self.shuffle:
            chance = random.Random(self.shuffle)  # noqa: S311  # repeatable, no secret
            for batch in batches:
                chance.shuffle(batch)
        return batches

    def __str__(self) -> str:
        cuts = ", ".join(map(str, self.cuts))
        told = [f"cut before {'row' if len(self.cuts) == 1 else 'rows'} {cuts}" if cuts else "one batch"]
        if self.shuffle:
            told.append(f"each batch shuffled (seed {self.shuffle})")
        if self.crash:
            told.append(f"each run crashed after step {self.crash} and started again")
        if self.backfill:
            told.append("each batch followed by a backfill")
        return ", ".join(told)


def time_of(value: object) -> datetime | None:
    """When a row happened; None where it does not say so.

    Raises:
        UsageError: TIDE-TEST-006, if it is no time.
    """
    try:
        moment = value if value is None or isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise nothing_to_compare(
            "The event time of a row is no time, so it is not known which rows would be late.",
            {"reason": error},
            "write a datetime, or ISO 8601",
        ) from error
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


@dataclass(frozen=True)
class Happened:
    """When a row happened.

    Args:
        stream: Name of its stream.
        at: Its event time; None where the row does not say so.
    """

    stream: str
    at: datetime | None


def possible_cuts(rows: Sequence[Happened], watermarks: Mapping[str, timedelta]) -> list[int]:
    """Rows before which a batch may begin without making any of them late; all of them without times.

    Args:
        rows: In the order in which they arrive.
        watermarks: How late the rows of each stream with an event time may come. Spark goes by the stream
            whose watermark is the earliest, so no row is late before each of them has had one.
    """
    found = []
    for cut in range(1, len(rows)):
        reached = _watermark(rows[:cut], watermarks)
        still = [row.at for row in rows[cut:] if row.at is not None]
        if reached is None or not still or min(still) >= reached:
            found.append(cut)
    return found


def _watermark(rows: Sequence[Happened], watermarks: Mapping[str, timedelta]) -> datetime | None:
    """Return the one watermark of a query after some rows; None while a stream has had no row."""
    latest = {
        name: max((row.at for row in rows if row.stream == name and row.at is not None), default=None)
        for name in watermarks
    }
    reached = [at - watermarks[name] for name, at in latest.items() if at is not None]
    return min(reached) if reached and len(reached) == len(watermarks) else None


def nothing_to_compare(problem: str, facts: Mapping[str, object], fix: str) -> UsageError:
    """What is asked for proves nothing."""
    return UsageError("TIDE-TEST-006", problem, facts=facts, fix=fix)
