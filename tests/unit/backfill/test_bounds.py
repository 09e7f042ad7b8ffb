"""The range of a backfill, as a user gives it and as a driver gets it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st

from tidemill.backfill.bounds import Bounds, parse_bounds
from tidemill.errors import UsageError

# Hypothesis wants its bounds without a zone.
moments = st.datetimes(
    min_value=datetime(1900, 1, 1),  # noqa: DTZ001
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
windows = st.sampled_from([timedelta(seconds=1), timedelta(minutes=5), timedelta(hours=7), timedelta(days=7)])


def refusal_of(*bounds: str | None) -> UsageError:
    with pytest.raises(UsageError) as refused:
        parse_bounds(*bounds)
    return refused.value


def test_no_bound_means_everything() -> None:
    assert parse_bounds() == Bounds()
    assert parse_bounds().is_everything


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-03-31", datetime(2024, 3, 31, tzinfo=UTC)),
        ("2024-03-31T02:30:00", datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
        ("2024-03-31T02:30:00Z", datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
        ("2024-03-31T02:30:00+02:00", datetime(2024, 3, 31, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_without_an_offset_is_utc(text: str, moment: datetime) -> None:
    assert parse_bounds(text, "2025-01-01").start == moment


def test_offsets_are_read_as_spark_writes_them() -> None:
    bounds = parse_bounds(None, None, '{"orders": {"0": 5, "1": 0}}', '{"orders": {"0": 9, "1": 0}}')
    assert bounds.start_offsets == {"orders": {"0": 5, "1": 0}}
    assert bounds.end_offsets == {"orders": {"0": 9, "1": 0}}
    assert not bounds.is_everything


@pytest.mark.parametrize(
    "bounds",
    [
        ("2024-01-01", None),
        (None, "2024-01-01"),
        ("2024-01-02", "2024-01-01"),
        ("2024-01-01", "2024-01-01"),
        ("yesterday", "2024-01-01"),
        ("0001-01-01T00:00:00+14:00", "2024-01-01"),
        ("2024-01-01", "9999-12-31T23:59:59"),
        ("2024-01-01", "2024-01-02", '{"orders": {"0": 5}}', '{"orders": {"0": 9}}'),
        (None, None, '{"orders": {"0": 5}}', None),
    ],
)
def test_a_range_that_is_none_is_refused(bounds: tuple[str | None, ...]) -> None:
    error = refusal_of(*bounds)
    assert (error.error_id, error.runbook) == ("TIDE-BACK-001", "backfill")


@pytest.mark.parametrize(
    "offsets",
    [
        "",
        "[]",
        "5",
        '{"orders": 5}',
        '{"orders": {"0": "5"}}',
        '{"orders": {"0": 5.5}}',
        '{"orders": {"0": true}}',
        '{"orders": {"0": -1}}',
        '{"orders": {"0": 1e400}}',
        '{"orders": {"first": 5}}',
        '{"orders": {"00": 5}}',
        # Would end the SQL text of the condition.
        '{"o\' OR true --": {"0": 5}}',
    ],
)
def test_offsets_that_are_none_are_refused(offsets: str) -> None:
    assert refusal_of(None, None, offsets, '{"orders": {"0": 9}}').error_id == "TIDE-BACK-001"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ('{"orders": {"0": 5}}', '{"orders": {"0": 5}}'),
        ('{"orders": {"0": 5}}', '{"orders": {"0": 4}}'),
        ('{"orders": {"0": 5, "1": 9}}', '{"orders": {"0": 9, "1": 8}}'),
        ('{"orders": {"0": 5}}', '{"orders": {"0": 9, "1": 9}}'),
        ('{"orders": {"0": 5}}', '{"payments": {"0": 9}}'),
        ("{}", "{}"),
    ],
)
def test_offsets_that_are_empty_backwards_or_unequal_are_refused(start: str, end: str) -> None:
    assert refusal_of(None, None, start, end).error_id == "TIDE-BACK-001"


def test_the_fact_shows_the_value_without_control_characters() -> None:
    assert refusal_of("\x1b[31m", "2024-01-01").facts == {"value": r"'\x1b[31m'"}
