"""The shortest time between two runs of a schedule."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidemill.spec.schedule import PRESETS
from tidemill.spec.schedule_gap import shortest_gap


@pytest.mark.parametrize(
    ("schedule", "gap"),
    [
        ("@hourly", timedelta(hours=1)),
        ("@daily", timedelta(days=1)),
        ("* * * * *", timedelta(minutes=1)),
        ("*/15 * * * *", timedelta(minutes=15)),
        ("0,50 * * * *", timedelta(minutes=10)),
        ("30 * * * *", timedelta(hours=1)),
        ("0 6,18 * * *", timedelta(hours=12)),
        ("0 1,22 * * *", timedelta(hours=3)),
        ("0 6 * * *", timedelta(days=1)),
        # A lower bound: what is derived from it keeps too much rather than too little.
        ("0 6 1 * *", timedelta(days=1)),
    ],
)
def test_the_shortest_time_between_two_runs(schedule: str, gap: timedelta) -> None:
    assert shortest_gap(schedule) == gap


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_one(preset: str) -> None:
    assert shortest_gap(preset) >= timedelta(hours=1)
