from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.payload import timestamps
from tidemill.payload.timestamps import read_instants


def instants(*texts: str | None) -> list[datetime | None]:
    return read_instants(pa.array(texts, pa.string())).to_pylist()


NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01 12:00:00Z",
        "2026-03-01t12:00:00z",
        "2026-03-01T12:00:00.000Z",
        "2026-03-01T12:00:00.000000000Z",
        "2026-03-01T12:00:00.0000009Z",
        "2026-03-01T12:00:00",
        "2026-03-01T12:00:00+00:00",
        "2026-03-01T12:00:00-00:00",
        "2026-03-01T17:30:00+05:30",
        "2026-03-01T17:30:00+0530",
        "2026-03-01 13:00:00+01",
        "2026-03-02T11:59:00+23:59",
    ],
)
def test_the_same_instant_in_many_spellings(text: str):
    assert instants(text) == [NOON]
    assert instants(text, "2026-03-01T12:00:00Z", None) == [NOON, NOON, None]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-03-01",
        "2026-03-01Z",
        "2026-03-01T12Z",
        "2026-03-01T12:00Z",
        "2026-03-01T12:00:60Z",
        "2016-12-31T23:59:60Z",
        "2026-03-01T24:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-03-01T12:00:00.Z",
        "2026-03-01T12:00:00,5Z",
        "2026-03-01T12:00:001Z",
        "2026-03-01T12:00:00+24:00",
        "2026-03-01T12:00:00+05:60",
        "2026-03-01T12:00:00 Z",
        " 2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z\n",
        "0000-12-31T23:59:59Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "12026-03-01T12:00:00Z",
        "-2026-03-01T12:00:00Z",
        "٢٠٢٦-03-01T12:00:00Z",
        "1772366400",
    ],
)
def test_what_is_not_an_instant_is_null_and_spoils_no_neighbour(text: str):
    assert instants(text) == [None]
    assert instants("2026-03-01T12:00:00Z", text, "2026-03-01T12:00:00") == [NOON, None, NOON]


def test_digits_below_the_microsecond_are_cut_off_before_1970_too():
    assert instants("1969-12-31T23:59:59.9999999Z") == [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]


def test_the_first_and_last_instant_are_held():
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
    assert instants(first, last) == [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]


def test_a_column_of_nulls_stays_one():
    assert instants(None, None) == [None, None]
    assert instants() == []


@given(st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9](:[0-6][0-9]){0,2}(\.[0-9]{0,9})?Z\Z"))
def test_the_quick_way_reads_what_the_careful_way_reads(text: str):
    column = pa.array([text, "2026-03-01T12:00:00Z"], pa.string())
    quick = timestamps._read_uniform(column)
    # The year 0 is out of range, which is looked at after either way.
    assert quick is None or text.startswith("0000") or quick.equals(timestamps._read_mixed(column))


@given(st.datetimes(timezones=st.timezones() | st.just(UTC)).filter(lambda at: at.utcoffset() is not None))
def test_what_python_writes_is_read_back(at: datetime):
    text = at.isoformat()
    # Historic offsets with seconds are not RFC 3339; the ends of time leave the range in UTC.
    try:
        expected = at.astimezone(UTC)
    except OverflowError:
        expected = None
    offset = at.utcoffset()
    assert offset is not None
    if offset.seconds % 60:
        expected = None
    assert instants(text) == [expected]
