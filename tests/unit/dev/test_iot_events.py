from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.dev.iot_events import BROKEN_FORMS, Event, IotSettings, event_interval, iot_events
from tidemill.errors import UsageError

START = datetime(2026, 1, 1, tzinfo=UTC)
MIXED = IotSettings(
    start=START,
    seed=7,
    interval=timedelta(seconds=1),
    late_rate=0.1,
    too_late_rate=0.05,
    duplicate_rate=0.1,
    broken_rate=0.1,
)


def events(settings: IotSettings, count: int = 5_000) -> list[Event]:
    return list(itertools.islice(iot_events(settings), count))


def reading(event: Event) -> dict[str, Any]:
    assert event.value is not None
    decoded: dict[str, Any] = json.loads(event.value)
    return decoded


def lateness(settings: IotSettings, kind: str) -> list[timedelta]:
    numbered = enumerate(events(settings))
    return [START + n * settings.interval - e.event_time for n, e in numbered if e.kind == kind]


def test_the_first_event_of_a_seed_never_changes() -> None:
    assert next(iot_events(IotSettings(start=START, seed=7))) == Event(
        key=b"device-0004",
        value=(
            b'{"event_id":"189264f7-ac55-4b69-82d0-4feeb6a94b0e","device_id":"device-0004",'
            b'"temperature":23.51,"humidity":32.9,"timestamp":"2026-01-01T00:00:00.000Z"}'
        ),
        kind="good",
        event_id="189264f7-ac55-4b69-82d0-4feeb6a94b0e",
        event_time=START,
    )


@given(seed=st.integers(0, 2**63), count=st.integers(0, 300), data=st.data())
def test_the_same_settings_give_the_same_events(seed: int, count: int, data: st.DataObject) -> None:
    rate = st.floats(0, 0.25)
    settings = dataclasses.replace(
        MIXED,
        seed=seed,
        late_rate=data.draw(rate),
        too_late_rate=data.draw(rate),
        duplicate_rate=data.draw(rate),
        broken_rate=data.draw(rate),
    )
    assert events(settings, count) == events(settings, count)


def test_another_seed_gives_other_ids_and_values() -> None:
    one, other = events(MIXED), events(dataclasses.replace(MIXED, seed=8))
    assert not {event.event_id for event in one} & {event.event_id for event in other}
    assert not {event.value for event in one if event.form == ""} & {e.value for e in other if e.form == ""}


def test_an_id_belongs_to_one_reading() -> None:
    ids = [event.event_id for event in events(MIXED) if event.kind != "duplicate"]
    assert len(ids) == len(set(ids))


def test_a_value_holds_what_the_event_says() -> None:
    for event in events(MIXED):
        if event.kind == "broken":
            continue
        fields = reading(event)
        assert list(fields) == ["event_id", "device_id", "temperature", "humidity", "timestamp"]
        assert fields["event_id"] == event.event_id
        assert fields["device_id"].encode() == event.key
        assert isinstance(fields["temperature"], float)
        assert isinstance(fields["humidity"], float)
        assert fields["timestamp"].endswith("Z")
        assert datetime.fromisoformat(fields["timestamp"]) == event.event_time
        assert event.form == ""


def test_event_time_advances_by_the_interval_and_not_by_a_clock() -> None:
    settings = IotSettings(start=START, interval=timedelta(microseconds=1500))
    assert [event.event_time - START for event in events(settings, 4)] == [
        timedelta(milliseconds=number) for number in (0, 1, 3, 4)
    ]


def test_a_start_in_another_time_zone_is_written_in_utc() -> None:
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert reading(next(iot_events(IotSettings(start=east))))["timestamp"] == "2026-01-01T00:00:00.000Z"


def test_every_kind_has_about_its_share() -> None:
    sent = Counter(event.kind for event in events(MIXED, 20_000))
    shares = {"good": 0.65, "late": 0.1, "too_late": 0.05, "duplicate": 0.1, "broken": 0.1}
    assert {kind: count / 20_000 for kind, count in sent.items()} == pytest.approx(shares, abs=0.01)


def test_a_late_event_is_within_the_watermark_and_a_too_late_one_is_not() -> None:
    millisecond = timedelta(milliseconds=1)
    late = lateness(MIXED, "late")
    assert timedelta(0) <= min(late) < max(late) <= MIXED.late_by + millisecond
    too_late = lateness(MIXED, "too_late")
    assert MIXED.too_late_by <= min(too_late) < max(too_late) <= 2 * MIXED.too_late_by + millisecond


def test_a_duplicate_repeats_an_earlier_event_byte_for_byte() -> None:
    seen: dict[str, Event] = {}
    for event in events(MIXED):
        if event.kind == "duplicate":
            first = seen[event.event_id]
            assert first.kind in ("good", "late")
            assert (event.key, event.value, event.event_time) == (first.key, first.value, first.event_time)
        else:
            seen[event.event_id] = event


def test_nothing_can_be_repeated_before_the_first_event() -> None:
    only_duplicates = IotSettings(start=START, duplicate_rate=1.0)
    assert [event.kind for event in events(only_duplicates, 3)] == ["good", "duplicate", "duplicate"]


def test_broken_events_take_every_form_in_turn() -> None:
    settings = IotSettings(start=START, broken_rate=1.0)
    assert [event.form for event in events(settings, 12)] == 2 * list(BROKEN_FORMS)


@pytest.mark.parametrize("form", BROKEN_FORMS)
def test_no_broken_form_passes_for_a_reading(form: str) -> None:
    broken = {event.form: event.value for event in events(IotSettings(start=START, broken_rate=1.0), 6)}
    value = broken[form]
    if form == "no_value":
        assert value is None
    elif form == "wrong_type":
        assert not isinstance(json.loads(value or b"")["temperature"], float)
    elif form == "missing_field":
        assert "device_id" not in json.loads(value or b"")
    elif form == "not_utf8":
        with pytest.raises(UnicodeDecodeError):
            (value or b"").decode()
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(value or b"")


def test_only_hot_devices_average_above_the_alert() -> None:
    of_device: dict[bytes, list[float]] = {}
    for event in events(IotSettings(start=START, devices=10, hot_devices=3)):
        of_device.setdefault(event.key, []).append(reading(event)["temperature"])
    assert len(of_device) == 10
    hot = {device for device, values in of_device.items() if mean(values) > 100}
    assert hot == {b"device-0001", b"device-0002", b"device-0003"}


def test_speed_stretches_the_interval() -> None:
    assert event_interval(events_per_second=200, speed=60) == timedelta(milliseconds=300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"late_rate": 0.6, "broken_rate": 0.6},
        {"late_rate": -0.1},
        {"devices": 0},
        {"hot_devices": 21},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is the mistake
        {"interval": timedelta(seconds=-1)},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        dataclasses.replace(MIXED, **wrong)
    assert refused.value.error_id == "TIDE-DEV-009"
