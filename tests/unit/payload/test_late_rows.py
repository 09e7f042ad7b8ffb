"""Late rows: by the end of their window as Spark computes it, or by their own time."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidemill.payload.late_rows import LateRule
from tidemill.payload.timestamps import INSTANT

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTES = 60_000_000


def late(rule: LateRule, *moments: int | None) -> list[bool]:
    """Return True for each late event time, in microseconds since 1970."""
    times = pa.array(moments, pa.int64()).cast(INSTANT)
    found = rule.late(times)
    return [False] * len(moments) if found is None else found.to_pylist()


def test_a_row_is_late_at_its_watermark_and_before() -> None:
    assert late(LateRule(1_000), 999_999, 1_000_000, 1_000_001) == [True, True, False]


def test_in_a_tumbling_window_the_windows_end_counts() -> None:
    rule = LateRule(10 * 60_000, window=5 * MINUTES)
    assert late(rule, 5 * MINUTES - 1, 10 * MINUTES - 1, 10 * MINUTES) == [True, True, False]
    moved = LateRule(10 * 60_000, window=5 * MINUTES, offset=MINUTES)
    assert late(moved, 6 * MINUTES - 1, 6 * MINUTES) == [True, False]


def test_a_row_without_a_time_is_late() -> None:
    assert late(LateRule(0), None, 1) == [True, False]


@given(
    st.integers(-(10**15), 10**15),
    st.integers(1, 10**12),
    st.integers(0, 10**12),
    st.integers(-(10**12), 10**12),
)
def test_the_end_of_a_window_is_that_of_arithmetic_without_limits(
    moment: int, length: int, offset: int, watermark: int
) -> None:
    """Python's remainder is never negative; before 1970 Arrow's is."""
    end = moment - (moment - offset) % length + length
    assert late(LateRule(watermark, length, offset), moment) == [end <= watermark * 1000]
