"""Triggers of a query: `run.trigger`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tidemill.spec.near_key import near_key
from tidemill.spec.units import DURATION_PATTERN, format_duration, parse_duration

Kind = Literal["interval", "available_now", "once", "continuous", "real_time"]

_WORDS: dict[str, Kind] = {"available_now": "available_now", "once": "once"}
_WITH_A_DURATION: dict[str, Kind] = {"continuous": "continuous", "real_time": "real_time"}
# Spark's names of triggers.
_OF_SPARK = {"availableNow": "available_now", "realTime": "real_time", "processingTime": "10 seconds"}

# Minimum time between two commits of offsets to the checkpoint, of two files each. The value for real-time
# mode is Spark's minimum.
_LEAST: dict[Kind, timedelta] = {
    "continuous": timedelta(milliseconds=100),
    "real_time": timedelta(seconds=5),
}


@dataclass(frozen=True)
class Trigger:
    """A rule for starting batches.

    Args:
        kind: Kind of trigger; see `capabilities.TRIGGERS`.
        interval: Minimum time between the starts of two batches. For triggers that write rows as they
            arrive, the time between two commits of the source's offsets.
    """

    kind: Kind = "interval"
    interval: timedelta = timedelta()


# Without `trigger`, the next batch of a stream starts as soon as the last one has ended, as in Spark. An
# incremental run reads all available data in batches of the source's limits.
DEFAULT_TRIGGERS: Mapping[str, Trigger] = {"stream": Trigger(), "incremental": Trigger("available_now")}


def parse_trigger(value: object) -> Trigger:
    """Read `10 seconds`, `available_now`, `once`, `{continuous: 1 second}` or `{real_time: 5 minutes}`.

    Raises:
        ValueError: If it is none of them.
    """
    if isinstance(value, Trigger):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        [(word, duration)] = value.items()
        if word in _WITH_A_DURATION:
            return _without_batches(_WITH_A_DURATION[word], parse_duration(duration))
    if isinstance(value, str) and value in _WORDS:
        return Trigger(_WORDS[value])
    try:
        return Trigger(interval=parse_duration(value))
    except ValueError as error:
        raise ValueError(f"{error}, or available_now, or once{_meant(value)}") from error


def _without_batches(kind: Kind, interval: timedelta) -> Trigger:
    least = _LEAST[kind]
    if interval < least:
        raise ValueError(f"{kind}: expected at least {format_duration(least)}")
    return Trigger(kind, interval)


def _meant(value: object) -> str:
    word = next(iter(value), "") if isinstance(value, Mapping) else value
    if not isinstance(word, str):
        return ""
    near = _OF_SPARK.get(word) or near_key(word, [*_WORDS, *_WITH_A_DURATION])
    return f"; did you mean {near}?" if near else ""


def _write(trigger: Trigger) -> str | dict[str, str]:
    if trigger.kind == "interval":
        return format_duration(trigger.interval)
    return trigger.kind if trigger.kind in _WORDS else {trigger.kind: format_duration(trigger.interval)}


DeclaredTrigger = Annotated[
    Trigger,
    BeforeValidator(parse_trigger),
    PlainSerializer(_write, return_type=str | dict[str, str]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^(?:available_now|once)$|{DURATION_PATTERN}"},
                {
                    "type": "object",
                    "properties": {
                        word: {"type": "string", "pattern": DURATION_PATTERN} for word in _WITH_A_DURATION
                    },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": False,
                },
            ],
            "examples": ["10 minutes", "available_now"],
        }
    ),
]
