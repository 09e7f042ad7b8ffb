from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.spec.readable import readable_size
from tidemill.spec.units import (
    MAX_DURATION,
    MAX_SIZE,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", timedelta(minutes=10)),
        ("1 minute", timedelta(minutes=1)),
        ("30s", timedelta(seconds=30)),
        ("1.5h", timedelta(minutes=90)),
        ("500 ms", timedelta(milliseconds=500)),
        ("2 Weeks", timedelta(weeks=2)),
        ("  3 d ", timedelta(days=3)),
        ("0 seconds", timedelta(0)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["10", 10, "", "minutes", "10 parsecs", "-1 s", "1e3 s", "٣ minutes", None, True]
)
def test_what_is_no_duration_is_refused_with_the_units(text: object) -> None:
    with pytest.raises(ValueError, match="seconds, minutes, hours"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["99999 weeks", "999999999999 days"])
def test_a_duration_beyond_ten_years_is_taken_for_a_wrong_unit(text: str) -> None:
    with pytest.raises(ValueError, match="is the unit right"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1g", 2**30), ("200 MB", 200 * 2**20), ("512k", 2**19), ("1 GiB", 2**30), ("0.5m", 2**19), (7, 7)],
)
def test_a_size_counts_in_multiples_of_1024(text: object, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["1", "1 x", "g", "", True, None, 1.5, -1, "9999999t", "1" * 5000])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=int(MAX_DURATION / timedelta(milliseconds=1))))
def test_a_duration_survives_writing_and_reading(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(min_value=0, max_value=MAX_SIZE))
def test_a_size_survives_writing_and_reading(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=50))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_size):
        with contextlib.suppress(ValueError):
            parse(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (1e16, "10000.0 TB")]
)
def test_bytes_are_told_in_a_unit_that_fits(count: float, text: str) -> None:
    assert readable_size(count) == text
