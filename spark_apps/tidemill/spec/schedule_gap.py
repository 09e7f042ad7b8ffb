"""The minimum time between two runs of a schedule."""

from __future__ import annotations

from datetime import timedelta

from tidemill.spec.schedule import schedule_fields

_PRESET_GAPS = {
    "@hourly": timedelta(hours=1),
    "@daily": timedelta(days=1),
    "@weekly": timedelta(weeks=1),
    "@monthly": timedelta(days=28),
    "@quarterly": timedelta(days=90),
    "@yearly": timedelta(days=365),
}


def shortest_gap(schedule: str) -> timedelta:
    """Return the minimum time between two runs of a valid schedule.

    For schedules that run only on certain days, it is the lower bound of one day. Retention derived from it
    is then too long rather than too short.
    """
    if schedule in _PRESET_GAPS:
        return _PRESET_GAPS[schedule]
    minutes, hours = schedule_fields(schedule)[:2]
    if len(minutes) > 1:
        return timedelta(minutes=_shortest_step(minutes, 60))
    if len(hours) > 1:
        return timedelta(hours=_shortest_step(hours, 24))
    return timedelta(days=1)


def _shortest_step(values: set[int], cycle: int) -> int:
    ordered = sorted(values)
    following = [*ordered[1:], ordered[0] + cycle]
    return min(later - earlier for earlier, later in zip(ordered, following, strict=True))
