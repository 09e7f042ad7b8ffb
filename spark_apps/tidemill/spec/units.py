"""Human-readable numbers: durations (`10 minutes`, `1.5h`), sizes (`200 MB`, `1g`), counts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

_MILLISECONDS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "w": 604_800_000,
    "week": 604_800_000,
}
# Binary multiples, as in the JVM (`-Xmx1g`), Spark (`spark.driver.memory`) and Kafka (1 MB = 1048576).
_BYTES = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

# Words have a plural with s and abbreviations do not, so `5 ms` means milliseconds.
DURATION_PATTERN = r"^\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]{1,12})\s*$"
_SIZE_PATTERN = r"^\s*([0-9]{1,16}(?:\.[0-9]{1,9})?)\s*([bkmgtBKMGT])(?:i?[bB])?\s*$"

# No duration exceeds ten years and no size 1,024 TB. A larger value has a wrong unit, and it could overflow
# the 64-bit arithmetic of Spark and Java.
MAX_DURATION = timedelta(days=3653)
MAX_SIZE = 2**50
# Largest count that fits Java's int, which several of Spark's options are.
MAX_COUNT = 2**31 - 1


def parse_duration(text: object) -> timedelta:
    """Read `10 minutes`, `30s`, `1.5 hours`.

    Raises:
        ValueError: If the unit is missing or unknown, or the duration is longer than MAX_DURATION.
    """
    if isinstance(text, timedelta):
        return text
    match = re.match(DURATION_PATTERN, text) if isinstance(text, str) else None
    unit = match.group(2).lower() if match else ""
    factor = _MILLISECONDS.get(unit) or _MILLISECONDS.get(unit.removesuffix("s"))
    if match is None or factor is None:
        raise ValueError(
            "expected a duration: a number and a unit of "
            "milliseconds, seconds, minutes, hours, days or weeks, e.g. 10 minutes"
        )
    milliseconds = float(match.group(1)) * factor
    if milliseconds > MAX_DURATION / timedelta(milliseconds=1):
        raise ValueError(f"longer than {MAX_DURATION.days} days; is the unit right?")
    return timedelta(milliseconds=round(milliseconds))


def parse_duration_or_off(text: object) -> timedelta | Literal["off"]:
    """Read a duration, or `off` for no limit.

    Raises:
        ValueError: See `parse_duration`.
    """
    return "off" if text == "off" else parse_duration(text)


def format_duration(duration: timedelta) -> str:
    """Return a duration in Spark's interval syntax, in the largest unit that gives a whole number."""
    milliseconds = round(duration / timedelta(milliseconds=1))
    if not milliseconds:
        return "0 seconds"
    for unit in ("week", "day", "hour", "minute", "second"):
        count, rest = divmod(milliseconds, _MILLISECONDS[unit])
        if rest == 0:
            return f"{count} {unit}" + ("s" if count != 1 else "")
    return f"{milliseconds} milliseconds"


def parse_size(text: object) -> int:
    """Read `1g`, `200 MB`, `512k`, or a number of bytes; multiples of 1024.

    Raises:
        ValueError: If the unit is unknown, or the size is negative or larger than MAX_SIZE.
    """
    match = re.match(_SIZE_PATTERN, text) if isinstance(text, str) else None
    if match is not None:
        size = round(float(match.group(1)) * _BYTES[match.group(2).lower()])
    elif isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        raise ValueError("expected a size: a number and a unit of b, k, m, g or t, e.g. 200 MB")
    if not 0 <= size <= MAX_SIZE:
        raise ValueError(f"expected a size from 0 to {format_size(MAX_SIZE)}; is the unit right?")
    return size


def format_size(size: int) -> str:
    """Return a size in the JVM's syntax, e.g. `512m`, in the largest unit that gives a whole number."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}b"


def _is_count(value: object) -> object:
    # Python counts true as 1.
    if isinstance(value, bool):
        raise ValueError("expected a whole number")
    # Not `le=`, because pydantic would prefer it to a lower limit of a model.
    if isinstance(value, int) and value > MAX_COUNT:
        raise ValueError(f"expected at most {MAX_COUNT}")
    return value


_READ = BeforeValidator(parse_duration)
_WRITE = PlainSerializer(format_duration, return_type=str)
_SCHEMA = WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["10 minutes"]})

Duration = Annotated[timedelta, _READ, _WRITE, _SCHEMA]
DurationOrOff = Annotated[
    timedelta | Literal["off"],
    BeforeValidator(parse_duration_or_off),
    PlainSerializer(lambda value: value if value == "off" else format_duration(value), return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^off$|{DURATION_PATTERN}",
            "examples": ["1 hour", "off"],
        }
    ),
]
# A driver's first batch takes up to 25 s on a busy machine, and streams are checked once a minute.
SHORTEST_PATIENCE = timedelta(minutes=1)


def _no_haste(patience: timedelta) -> timedelta:
    if patience < SHORTEST_PATIENCE:
        raise ValueError("expected at least 1 minute, so that a driver can start")
    return patience


Patience = Annotated[timedelta, AfterValidator(_no_haste), _READ, _WRITE, _SCHEMA]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": _SIZE_PATTERN, "examples": ["1g"]}),
]
Count = Annotated[int, Field(gt=0), BeforeValidator(_is_count)]
NonNegative = Annotated[int, Field(ge=0), BeforeValidator(_is_count)]
