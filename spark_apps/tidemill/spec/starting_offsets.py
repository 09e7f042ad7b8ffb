"""Start position of a new checkpoint of a Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema

# Spark's numbers for the ends of a partition: -2 earliest, -1 latest.
EARLIEST_OFFSET = -2

_EXPECTED = (
    "expected earliest, latest, a moment such as 2026-03-01T00:00:00Z, or {topic: {partition: offset}} "
    "with offsets of -2 (earliest), -1 (latest) or more"
)


def check_starting_offsets(value: object) -> object:
    """Return `value` if Spark can start there.

    Raises:
        ValueError: Describes the expected value.
    """
    if value in ("earliest", "latest"):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        raise ValueError(f"{_EXPECTED}; this is JSON in quotes, as Spark takes it: remove the quotes")
    if isinstance(value, str | datetime):
        return _moment(value)
    if not isinstance(value, Mapping) or not value:
        raise ValueError(_EXPECTED)
    for partitions in value.values():
        if not isinstance(partitions, Mapping) or not partitions:
            raise ValueError(_EXPECTED)
        if not all(_is_partition(key) and _is_offset(offset) for key, offset in partitions.items()):
            raise ValueError(_EXPECTED)
    return value


def _moment(value: str | datetime) -> datetime:
    """Return a timestamp in UTC. YAML already parses unquoted ones; without a zone they are in UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(_EXPECTED) from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def check_moment(value: object) -> object:
    """Return a timestamp in UTC.

    Raises:
        ValueError: If it is not a timestamp.
    """
    if isinstance(value, str | datetime):
        try:
            return _moment(value)
        except ValueError:
            pass
    raise ValueError("expected a moment such as 2026-03-01T00:00:00Z")


def _is_partition(key: object) -> bool:
    text = str(key)
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _is_offset(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and EARLIEST_OFFSET <= offset < 2**63


Moment = Annotated[
    datetime, BeforeValidator(check_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]

# earliest, latest, a timestamp, or {topic: {partition: offset}} in Spark's form.
StartingOffsets = Literal["earliest", "latest"] | datetime | dict[str, dict[str, int]]

CheckedStartingOffsets = Annotated[
    StartingOffsets,
    BeforeValidator(check_starting_offsets),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["earliest", "latest"]},
                {"type": "string", "format": "date-time"},
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": {"type": "integer", "minimum": EARLIEST_OFFSET},
                    },
                },
            ]
        }
    ),
]
