"""Generated but reproducible IoT readings: on time, late, repeated and broken.

The same settings produce the same events, byte for byte, on every machine and at every speed. So the expected
content of a table is found by running the generator again. Event time advances by one `interval` per event
and is independent of the clock.
"""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from tidemill.errors import UsageError

Kind = Literal["good", "late", "too_late", "duplicate", "broken"]

KINDS: tuple[Kind, ...] = ("good", "late", "too_late", "duplicate", "broken")

# Normal temperatures in degrees, and their spread. A hot device stays above the alert's 100 degrees in every
# reading, so in every average; the others stay far below it.
USUAL_TEMPERATURE = 22.0
HOT_TEMPERATURE = 110.0
TEMPERATURE_SPREAD = 5.0

# Percent.
HUMIDITY_RANGE = (30.0, 70.0)

# Number of latest events, without too late and broken ones, from which a duplicate is chosen.
REPEATABLE_EVENTS = 50


@dataclass(frozen=True)
class IotSettings:
    """Settings of the generator. Rates are shares of all events, from 0 to 1; the remaining events are good.

    Args:
        start: Event time of the first event; with a time zone.
        seed: Seed of ids and values.
        interval: Event time from one event to the next.
        devices: Number of devices.
        hot_devices: Number of devices that measure above 100 degrees.
        late_rate: Share of events that are up to `late_by` late.
        late_by: Maximum lateness of late events; keep it below the pipeline's watermark.
        too_late_rate: Share of events that are between `too_late_by` and twice that late.
        too_late_by: Minimum lateness of too late events; keep it well above the watermark.
        duplicate_rate: Share of events that repeat an earlier one: same key, same bytes.
        broken_rate: Share of events that cannot be read, with each of `BROKEN_FORMS` in turn.
    """

    start: datetime
    seed: int = 0
    interval: timedelta = timedelta(milliseconds=100)
    devices: int = 20
    hot_devices: int = 2
    late_rate: float = 0.0
    late_by: timedelta = timedelta(minutes=8)
    too_late_rate: float = 0.0
    too_late_by: timedelta = timedelta(minutes=60)
    duplicate_rate: float = 0.0
    broken_rate: float = 0.0

    def __post_init__(self) -> None:
        rates = (self.late_rate, self.too_late_rate, self.duplicate_rate, self.broken_rate)
        _require("start has a time zone", self.start.tzinfo is not None, self.start)
        _require("interval is not negative", self.interval >= timedelta(0), self.interval)
        _require("devices is at least 1", self.devices >= 1, self.devices)
        _require("hot_devices is at most devices", 0 <= self.hot_devices <= self.devices, self.hot_devices)
        _require("each rate is from 0 to 1", all(0 <= rate <= 1 for rate in rates), rates)
        _require("all rates together are at most 1", sum(rates) <= 1, rates)


@dataclass(frozen=True, slots=True)
class Event:
    """One record as sent to Kafka, with its expected interpretation.

    Args:
        key: The device id.
        value: JSON for all kinds but `broken`; None is a record without a value.
        kind: Kind of event; a duplicate has the id and time of the event that it repeats.
        event_id: Id of the reading, even if a broken value does not contain it.
        event_time: Event time in UTC, whole milliseconds, as written in the value.
        form: Name of the form in `BROKEN_FORMS` for a broken event; empty for the others.
    """

    key: bytes
    value: bytes | None
    kind: Kind
    event_id: str
    event_time: datetime
    form: str = ""


def iot_events(settings: IotSettings) -> Iterator[Event]:
    """Return all events of these settings, without end."""
    return iter(_Generator(settings))


def event_interval(events_per_second: float, speed: float = 1.0) -> timedelta:
    """Return the event time between two events, at `speed` event seconds per second."""
    return timedelta(seconds=speed / events_per_second)


@dataclass(frozen=True, slots=True)
class _Reading:
    event_id: str
    device_id: str
    temperature: float
    humidity: float
    event_time: datetime

    def json(self) -> str:
        # Formatted by hand, because ids and numbers need no escaping, and a million events must take seconds.
        return (
            f'{{"event_id":"{self.event_id}","device_id":"{self.device_id}",'
            f'"temperature":{self.temperature},"humidity":{self.humidity},'
            f'"timestamp":"{rfc3339(self.event_time)}"}}'
        )


def rfc3339(time: datetime) -> str:
    """Return a UTC time in the events' format: `2026-01-31T23:59:59.123Z`."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _truncated_json(reading: _Reading) -> bytes:
    text = reading.json()
    return text[: len(text) // 2].encode()


def _wrong_type(reading: _Reading) -> bytes:
    return _changed(reading, temperature="warm")


def _missing_field(reading: _Reading) -> bytes:
    return _changed(reading, device_id=None)


def _no_value(_reading: _Reading) -> None:
    return None


def _not_utf8(reading: _Reading) -> bytes:
    return reading.json().encode().replace(b"device-", b"device\xff\xfe")


def _plain_text(reading: _Reading) -> bytes:
    return f"{reading.device_id} measures {reading.temperature} degrees".encode()


def _changed(reading: _Reading, **changes: str | None) -> bytes:
    fields = {**json.loads(reading.json()), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


BROKEN_FORMS: dict[str, Callable[[_Reading], bytes | None]] = {
    "truncated_json": _truncated_json,
    "wrong_type": _wrong_type,
    "missing_field": _missing_field,
    "no_value": _no_value,
    "not_utf8": _not_utf8,
    "plain_text": _plain_text,
}


class _Generator:
    """The state of one run: its random numbers, its position, and the events it may repeat."""

    def __init__(self, settings: IotSettings) -> None:
        self._settings = settings
        # Python guarantees the same numbers for a seed in every version (for `random()` only).
        self._random = random.Random(settings.seed)  # noqa: S311 - made-up data
        self._start = settings.start.astimezone(UTC)
        self._repeatable: deque[Event] = deque(maxlen=REPEATABLE_EVENTS)
        self._broken = 0

    def __iter__(self) -> Iterator[Event]:
        sequence = 0
        while True:
            yield self._next_event(sequence)
            sequence += 1

    def _next_event(self, sequence: int) -> Event:
        kind = self._draw_kind()
        if kind == "duplicate" and self._repeatable:
            chosen = self._repeatable[int(self._random.random() * len(self._repeatable))]
            return Event(chosen.key, chosen.value, kind, chosen.event_id, chosen.event_time)
        if kind == "duplicate":
            kind = "good"
        now = self._start + sequence * self._settings.interval
        event = self._event(kind, self._reading(sequence, now - self._lateness(kind)))
        if kind in ("good", "late"):
            self._repeatable.append(event)
        return event

    def _draw_kind(self) -> Kind:
        settings, draw = self._settings, self._random.random()
        kinds: tuple[tuple[Kind, float], ...] = (
            ("late", settings.late_rate),
            ("too_late", settings.too_late_rate),
            ("duplicate", settings.duplicate_rate),
            ("broken", settings.broken_rate),
        )
        for kind, rate in kinds:
            if draw < rate:
                return kind
            draw -= rate
        return "good"

    def _lateness(self, kind: Kind) -> timedelta:
        if kind == "late":
            return self._settings.late_by * self._random.random()
        if kind == "too_late":
            return self._settings.too_late_by * (1 + self._random.random())
        return timedelta(0)

    def _reading(self, sequence: int, time: datetime) -> _Reading:
        settings, draw = self._settings, self._random.random
        device = int(draw() * settings.devices)
        usual = HOT_TEMPERATURE if device < settings.hot_devices else USUAL_TEMPERATURE
        lowest, highest = HUMIDITY_RANGE
        return _Reading(
            event_id=_event_id(settings.seed, sequence),
            device_id=f"device-{device + 1:04d}",
            temperature=round(usual + TEMPERATURE_SPREAD * (2 * draw() - 1), 2),
            humidity=round(lowest + (highest - lowest) * draw(), 2),
            event_time=time.replace(microsecond=time.microsecond // 1000 * 1000),
        )

    def _event(self, kind: Kind, reading: _Reading) -> Event:
        key = reading.device_id.encode()
        if kind != "broken":
            return Event(key, reading.json().encode(), kind, reading.event_id, reading.event_time)
        form = tuple(BROKEN_FORMS)[self._broken % len(BROKEN_FORMS)]
        self._broken += 1
        value = BROKEN_FORMS[form](reading)
        return Event(key, value, kind, reading.event_id, reading.event_time, form)


def _event_id(seed: int, sequence: int) -> str:
    digest = hashlib.blake2b(f"{seed}:{sequence}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def _require(rule: str, holds: bool, found: object) -> None:
    if not holds:
        raise UsageError(
            "TIDE-DEV-009",
            "The events cannot be generated with these settings.",
            facts={"rule": rule, "found": found},
            fix=f"see to it that {rule}",
        )
