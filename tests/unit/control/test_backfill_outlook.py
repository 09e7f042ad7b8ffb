"""The facts that are shown of a plan before it runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.volume import Volume
from tidemill.control.backfill_outlook import Outlook

PLAN = BackfillPlan(pipeline="orders", definition="d", bounds=Bounds(), by="record")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "unknown"),
        (0.2, "about 1 second, estimated"),
        (119, "about 119 seconds, estimated"),
        (150, "about 2 minutes, estimated"),
        (3725, "about 62 minutes, estimated"),
        (7300, "about 2 hours, estimated"),
    ],
)
def test_an_estimated_time_is_called_one_and_has_few_digits(seconds: float | None, told: str) -> None:
    time = None if seconds is None else timedelta(seconds=seconds)
    outlook = Outlook(PLAN, Volume(None, None, ()), time, [])
    assert any(told in line for line in outlook.lines() if line.startswith("  time"))
    assert outlook.as_document()["time_estimate"] == seconds
