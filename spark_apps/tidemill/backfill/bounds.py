"""The requested range of a backfill: of time, of offsets, or everything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions

# Beyond this time, the end of a long window would not fit Python's dates.
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)

# Names and numbers as Kafka allows them. They become part of an SQL condition, so no other text may pass.
_POSITIONS: TypeAdapter[Positions] = TypeAdapter(
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")],
        dict[
            Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")],
            Annotated[int, Field(ge=0, lt=2**63)],
        ],
    ],
    config=ConfigDict(strict=True),
)


class Bounds(BaseModel):
    """The range to process again. Starts are inclusive, ends exclusive.

    Args:
        start: Start of event time; with `end`.
        end: End of event time.
        start_offsets: First offset of each partition; with `end_offsets`.
        end_offsets: End offset of each partition.
    """

    model_config = ConfigDict(frozen=True)

    start: datetime | None = None
    end: datetime | None = None
    start_offsets: Positions | None = None
    end_offsets: Positions | None = None

    @property
    def is_everything(self) -> bool:
        """Return True if no bound was given."""
        return self.start is None and self.start_offsets is None

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        """Return the range of time; None for another range."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    def text(self) -> str:
        """Return the range in readable form."""
        if self.times is not None:
            return " to ".join(moment.isoformat() for moment in self.times)
        if self.start_offsets is not None:
            return f"offsets {self.start_offsets} to {self.end_offsets}"
        return "everything"


def parse_bounds(
    start: str | None = None,
    end: str | None = None,
    start_offsets: str | None = None,
    end_offsets: str | None = None,
) -> Bounds:
    """Return the bounds given by a user or a trigger form.

    Raises:
        UsageError: TIDE-BACK-001, if a bound is missing, unreadable or empty.
    """
    if (start is None) != (end is None) or (start_offsets is None) != (end_offsets is None):
        raise _unusable(
            "A range has a start and an end.", start=start or start_offsets, end=end or end_offsets
        )
    if start is not None and start_offsets is not None:
        raise _unusable(
            "A range is of time or of offsets, not both.", start=start, start_offsets=start_offsets
        )
    bounds = Bounds(
        start=_moment(start),
        end=_moment(end),
        start_offsets=_positions(start_offsets),
        end_offsets=_positions(end_offsets),
    )
    if bounds.start is not None and bounds.end is not None and bounds.start >= bounds.end:
        raise _unusable("The range is empty.", start=start, end=end)
    if bounds.start_offsets is not None and bounds.end_offsets is not None:
        _check_positions(bounds.start_offsets, bounds.end_offsets)
    return bounds


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _unusable("This is not a moment.", value=text[:40]) from error
    if moment >= _LATEST:
        raise _unusable("This moment is too late.", value=text[:40])
    return moment


def _positions(text: str | None) -> Positions | None:
    if text is None:
        return None
    try:
        return _POSITIONS.validate_json(text)
    except ValidationError as error:
        raise _unusable("These are not offsets.", value=text[:80]) from error


def _check_positions(start: Positions, end: Positions) -> None:
    """Raise unless each partition has a start and an end, and at least one range is not empty."""
    places = [{(topic, partition) for topic in side for partition in side[topic]} for side in (start, end)]
    if places[0] != places[1]:
        raise _unusable("Start and end must name the same partitions.", start=start, end=end)
    lengths = [end[topic][partition] - start[topic][partition] for topic, partition in places[0]]
    if min(lengths, default=0) < 0 or max(lengths, default=0) == 0:
        raise _unusable("The range is empty or runs backwards.", start=start, end=end)


def _unusable(problem: str, **facts: object) -> UsageError:
    return UsageError(
        "TIDE-BACK-001",
        problem,
        facts={name: ascii(value) for name, value in facts.items()},
        fix="give --from and --to as ISO 8601 (UTC without an offset), or --from-offsets and --to-offsets "
        'as {"topic": {"0": 5}}',
        runbook="backfill",
    )
