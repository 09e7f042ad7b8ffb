"""Where a new checkpoint of a Kafka source starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema

# Spark's own numbers for the ends of a partition: -2 earliest, -1 latest.
EARLIEST_OFFSET = -2

_EXPECTED = (
    "expected earliest, latest, or {topic: {partition: offset}} "
    "with offsets of -2 (earliest), -1 (latest) or more"
)


def check_starting_offsets(value: object) -> object:
    """Return `value` if Spark can start there.

    Raises:
        ValueError: Says what is expected.
    """
    if value in ("earliest", "latest"):
        return value
    if not isinstance(value, Mapping) or not value:
        raise ValueError(_EXPECTED)
    for partitions in value.values():
        if not isinstance(partitions, Mapping) or not partitions:
            raise ValueError(_EXPECTED)
        if not all(_is_partition(key) and _is_offset(offset) for key, offset in partitions.items()):
            raise ValueError(_EXPECTED)
    return value


def _is_partition(key: object) -> bool:
    text = str(key)
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _is_offset(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and EARLIEST_OFFSET <= offset < 2**63


# earliest, latest, or {topic: {partition: offset}}, as Spark writes them.
StartingOffsets = Literal["earliest", "latest"] | dict[str, dict[str, int]]

CheckedStartingOffsets = Annotated[
    StartingOffsets,
    BeforeValidator(check_starting_offsets),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["earliest", "latest"]},
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
