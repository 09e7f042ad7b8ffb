"""Rows as Python values, whatever year is in them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidemill.storage.row_values import row_values

BEYOND = 253_402_300_800_000_000  # 10000-01-01


def at(*values: int | None, zone: str | None = "UTC") -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp("us", zone))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        pytest.param(at(0, None), [datetime(1970, 1, 1, tzinfo=UTC), None], id="years that Python has"),
        pytest.param(
            at(0, None, BEYOND, -62_135_596_800_000_001),
            [
                datetime(1970, 1, 1, tzinfo=UTC),
                None,
                "+10000-01-01T00:00:00.000000Z",
                "+0000-12-31T23:59:59.999999Z",
            ],
            id="years before and behind",
        ),
        pytest.param(
            at(-(2**63), 2**63 - 1, zone=None),
            ["-290308-12-21T19:59:05.224192", "+294247-01-10T04:00:54.775807"],
            id="ends of int64 without zone",
        ),
        pytest.param(
            pa.array([-(2**31), 0, 2**31 - 1], pa.int32()).view(pa.date32()),
            ["-5877641-06-23", date(1970, 1, 1), "+5881580-07-11"],
            id="ends of the dates",
        ),
        pytest.param(
            pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("ms")),
            ["+292278994-08-17T07:12:55.807000"],
            id="milliseconds",
        ),
        pytest.param(
            pa.StructArray.from_arrays(
                [pa.ListArray.from_arrays([0, 1, 2], at(0, BEYOND, zone=None)), pa.array([1, 2])],
                ["all", "id"],
            ),
            [
                {"all": [datetime(1970, 1, 1)], "id": 1},  # noqa: DTZ001
                {"all": ["+10000-01-01T00:00:00.000000"], "id": 2},
            ],
            id="nested",
        ),
        pytest.param(
            pa.MapArray.from_arrays([0, 1], pa.array(["a"]), at(BEYOND)),
            [[("a", "+10000-01-01T00:00:00.000000Z")]],
            id="map",
        ),
    ],
)
def test_each_value_has_a_python_form(column: pa.Array, values: list[Any]) -> None:
    rows = pa.table({"c": column, "n": pa.array(range(len(column)))})
    expected = [{"c": value, "n": place} for place, value in enumerate(values)]
    assert row_values(rows) == expected
    assert row_values(rows.to_batches()[0]) == expected
