"""Events from the future: measured against their own arrival, which never counts as later than the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tidemill.payload.event_time import EventTimeLimit
from tidemill.payload.timestamps import INSTANT

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LIMIT = EventTimeLimit("at", HOUR)
TICK = timedelta(microseconds=1)


def ahead(*events: datetime | None, arrived: datetime | None = NOON, now: datetime = NOON) -> list[bool]:
    count = len(events)
    times = pa.array(events, INSTANT)
    found = LIMIT.ahead(times, pa.array([arrived] * count, INSTANT), pa.array([now] * count, INSTANT))
    return [False] * count if found is None else found.to_pylist()


def test_an_event_may_be_ahead_by_the_limit_and_no_more() -> None:
    assert ahead(NOON - HOUR, NOON, NOON + HOUR, NOON + HOUR + TICK) == [False, False, False, True]


def test_an_event_without_a_time_is_not_ahead() -> None:
    assert ahead(None, datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)) == [
        False,
        True,
        False,
    ]


def test_where_none_is_ahead_there_is_no_mask_to_make() -> None:
    moments = pa.array([NOON], INSTANT)
    assert LIMIT.ahead(moments, moments, moments) is None


@pytest.mark.parametrize(
    ("arrived", "now", "event", "is_ahead"),
    [
        # Read long after its arrival, as by a backfill: the same answer.
        (NOON, NOON + 48 * HOUR, NOON + 2 * HOUR, True),
        # A producer that sets the broker's timestamp to the event's own.
        (NOON + 48 * HOUR, NOON, NOON + 48 * HOUR, True),
        (NOON + HOUR / 2, NOON, NOON + HOUR, False),
        # No timestamp: the clock alone.
        (None, NOON, NOON + HOUR, False),
        (None, NOON, NOON + HOUR + TICK, True),
        (datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), NOON, NOON + HOUR, False),
    ],
)
def test_an_arrival_counts_as_far_as_the_clock(
    arrived: datetime | None, now: datetime, event: datetime, is_ahead: bool
) -> None:
    assert ahead(event, arrived=arrived, now=now) == [is_ahead]


def test_a_source_that_tells_no_arrival_is_measured_by_the_clock() -> None:
    times = pa.array([NOON + HOUR, NOON + HOUR + TICK], INSTANT)
    found = LIMIT.ahead(times, None, pa.array([NOON] * 2, INSTANT))
    assert found is not None
    assert found.to_pylist() == [False, True]
