from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.spec.schedule import PRESETS, check_schedule


@pytest.mark.parametrize(
    "schedule",
    [
        *PRESETS,
        "* * * * *",
        "*/15 * * * *",
        "0 6 * * mon-fri",
        "5,35 0-6/2 1 JAN,jul *",
        "0 0 29 2 *",
        "0 0 * * 7",
        "3/20 * * * *",
    ],
)
def test_a_schedule_that_comes_due_is_accepted(schedule: str) -> None:
    assert check_schedule(schedule) == schedule


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("@dayly", "did you mean @daily"),
        ("@once", "expected one of"),
        ("daily", "five fields"),
        ("* * * *", "found 4"),
        ("* * * * * *", "found 6"),
        ("60 * * * *", "minute: expected a number from 0 to 59"),
        ("* 24 * * *", "hour: expected a number from 0 to 23"),
        ("* * 0 * *", "day of the month: expected a number from 1 to 31"),
        ("* * * 13 *", "month: expected a number from 1 to 12 or a name"),
        ("* * * * 8", "day of the week: expected a number from 0 to 7 or a name"),
        ("30-10 * * * *", "a range goes up"),
        ("*/0 * * * *", "step is at least 1"),
        ("a-b * * * *", "minute: expected a number"),
        ("1;2 * * * *", "minute: expected"),
        ("٣ * * * *", "minute: expected a number"),
        ("0 0 31 2 *", "it would never run"),
        ("0 0 31 4,6 *", "it would never run"),
        ("", "five fields"),
    ],
)
def test_a_wrong_schedule_says_which_field(schedule: str, says: str) -> None:
    with pytest.raises(ValueError, match="^[^\n]*" + says.replace("*", r"\*")):
        check_schedule(schedule)


@given(st.text(alphabet="*/,-0123456789 @adehilmnorsuy", max_size=30))
def test_any_text_is_accepted_or_refused(schedule: str) -> None:
    with contextlib.suppress(ValueError):
        assert check_schedule(schedule) == schedule
