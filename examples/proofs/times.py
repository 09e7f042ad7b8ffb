"""Windows and watermarks in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Row = Mapping[str, Any]

DAY = datetime(2024, 5, 1, tzinfo=UTC)


def at(clock: str, date: datetime = DAY) -> str:
    """A moment of the day as events write it: `at("12:03:30")`."""
    return f"{date:%Y-%m-%d}T{clock}Z"


def moment(text: str) -> datetime:
    """The moment that an event writes."""
    return datetime.fromisoformat(text)


def window_start(time: datetime, minutes: int) -> datetime:
    """Start of the window that a moment lies in."""
    return time - (time - DAY) % timedelta(minutes=minutes)


def by_window(
    rows: Iterable[Row], time: Callable[[Row], datetime], minutes: int, watermark: timedelta
) -> dict[datetime, list[Row]]:
    """Rows of each window that is over once all rows were read in one batch."""
    all_rows = list(rows)
    now = max(time(row) for row in all_rows) - watermark
    windows: dict[datetime, list[Row]] = {}
    for row in all_rows:
        start = window_start(time(row), minutes)
        if start + timedelta(minutes=minutes) <= now:
            windows.setdefault(start, []).append(row)
    return windows
