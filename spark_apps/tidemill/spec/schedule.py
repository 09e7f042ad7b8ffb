"""Cron schedules of Airflow: a preset, or five fields in UTC."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tidemill.spec.near_key import near_key

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Field, lowest number, highest number, and names of the numbers from the lowest up. Sunday is 0 and 7.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _WEEKDAYS),
)


def check_schedule(schedule: str) -> str:
    """Return `schedule` if it is a preset or a cron expression that is due at some time.

    Raises:
        ValueError: Names the field and its range.
    """
    if schedule.startswith("@"):
        if schedule not in PRESETS:
            near = near_key(schedule, PRESETS)
            raise ValueError(
                f"expected one of {', '.join(PRESETS)}" + (f"; did you mean {near}?" if near else "")
            )
        return schedule
    _, _, days, months, _ = schedule_fields(schedule)
    # If a day of the week is given, cron accepts either day. Only a day of the month alone can be impossible.
    if schedule.split()[4] == "*" and all(min(days) > _LONGEST_MONTH_DAYS[month - 1] for month in months):
        raise ValueError("no such day in these months: it would never run")
    return schedule


def schedule_fields(schedule: str) -> list[set[int]]:
    """Return the minutes, hours, days of the month, months and days of the week of a cron expression.

    Raises:
        ValueError: Names the field and its range.
    """
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(name for name, *_ in _FIELDS)
        raise ValueError(f"expected a preset such as @daily, or five fields: {names}; found {len(parts)}")
    return [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]


def _values(part: str, field: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    """Return the numbers that one field matches."""
    values: set[int] = set()
    for item in part.split(","):
        match = re.fullmatch(r"(\*|(\w{1,3})(?:-(\w{1,3}))?)(?:/([0-9]{1,2}))?", item)
        if match is None:
            raise ValueError(f"{field}: expected *, a number, a range a-b, or one of them with a step /n")
        every, first, last, step = match.groups()
        start = low if every == "*" else _number(first, field, low, high, names)
        # As in cron, `5/10` means from 5 to the end in steps of 10.
        end = _number(last, field, low, high, names) if last else start if first and not step else high
        if end < start or step == "0" or step == "00":
            raise ValueError(f"{field}: a range goes up and a step is at least 1")
        values.update(range(start, end + 1, int(step or 1)))
    return values


def _number(text: str, field: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
        raise ValueError(f"{field}: expected a number from {low} to {high}" + (" or a name" if names else ""))
    return int(text)


Schedule = Annotated[str, Field(max_length=100), AfterValidator(check_schedule)]
