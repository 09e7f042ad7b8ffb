"""The ways in which rows can arrive at a pipeline, which must not change its result."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.errors import UsageError


@dataclass(frozen=True)
class Arrival:
    """One way in which rows arrive, with the events that happen in between.

    Args:
        cuts: Rows before which a new batch begins, ascending.
        shuffle: Seed of the order within each batch; 0 keeps the order.
        crash: Number of batch steps after which each run crashes and is started again; 0 for no crash.
        backfill: True if after each batch a backfill recomputes everything that no later row can change.
    """

    cuts: tuple[int, ...] = ()
    shuffle: int = 0
    crash: int = 0
    backfill: bool = False

    def batches(self, count: int) -> list[list[int]]:
        """Return the positions of `count` rows, by batch."""
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
    """Return the event time of a row; None if it has none.

    Raises:
        UsageError: TIDE-TEST-006, if it is not a time.
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
    """The event time of a row.

    Args:
        stream: Name of its stream.
        at: Its event time; None if the row has none.
    """

    stream: str
    at: datetime | None


def possible_cuts(rows: Sequence[Happened], watermarks: Mapping[str, timedelta]) -> list[int]:
    """Return the rows before which a batch may begin without making any row late; all rows without times.

    Args:
        rows: Rows in their order of arrival.
        watermarks: Allowed lateness of each stream with an event time. Spark uses the stream with the
            earliest watermark, so no row is late before every such stream has had a row.
    """
    found = []
    for cut in range(1, len(rows)):
        reached = _watermark(rows[:cut], watermarks)
        still = [row.at for row in rows[cut:] if row.at is not None]
        if reached is None or not still or min(still) >= reached:
            found.append(cut)
    return found


def _watermark(rows: Sequence[Happened], watermarks: Mapping[str, timedelta]) -> datetime | None:
    """Return the watermark of a query after some rows; None while a stream has had no row."""
    latest = {
        name: max((row.at for row in rows if row.stream == name and row.at is not None), default=None)
        for name in watermarks
    }
    reached = [at - watermarks[name] for name, at in latest.items() if at is not None]
    return min(reached) if reached and len(reached) == len(watermarks) else None


def nothing_to_compare(problem: str, facts: Mapping[str, object], fix: str) -> UsageError:
    """Return the error for a request that would prove nothing."""
    return UsageError("TIDE-TEST-006", problem, facts=facts, fix=fix)
