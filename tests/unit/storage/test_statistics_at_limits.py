"""Statistics of values at the limits of their types: no write fails, and every bound is right."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.support.commits import commit_of
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import INDEXED_TEXT_CHARACTERS, write_part

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# 0001-01-01 and 9999-12-31, in days since 1970, and the last microsecond of the latter.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_MOMENT, LAST_MOMENT = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1
LAST_CHARACTER = "\U0010ffff"
LONG = "a" * INDEXED_TEXT_CHARACTERS


@dataclass(frozen=True)
class Limits:
    """A column with values at the limits of its type, and the bounds that the log may give."""

    values: pa.Array
    low: Any = None
    high: Any = None


def viewed(kind: pa.DataType, storage: pa.DataType, *values: int) -> pa.Array:
    """Return values by their integers, because Python has no datetime for some of them."""
    return pa.array(values, storage).view(kind)


def instants(unit: str, zone: str | None, *values: int) -> pa.Array:
    return viewed(pa.timestamp(unit, zone), pa.int64(), *values)


def not_utf8() -> pa.Array:
    content = pa.array([b"a", b"\xff\xfe"], pa.binary())
    return pa.Array.from_buffers(pa.string(), 2, content.buffers())


def halves() -> pa.Array:
    return pa.Array.from_buffers(
        pa.float16(), 3, [None, pa.py_buffer(struct.pack("<3e", float("nan"), 65504, -1))]
    )


INTEGERS = {
    f"int{bits}": Limits(
        pa.array([-(2 ** (bits - 1)), None, 2 ** (bits - 1) - 1], kind),
        -(2 ** (bits - 1)),
        2 ** (bits - 1) - 1,
    )
    for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
}
FLOATS = {
    "nan": Limits(pa.array([1.0, float("nan")]), low=1.0),
    "only NaN": Limits(pa.array([float("nan")])),
    "infinities": Limits(pa.array([float("-inf"), float("inf")])),
    "only the maximum is infinite": Limits(pa.array([-1.5, float("inf")]), low=-1.5),
    "zeros": Limits(pa.array([-0.0, 0.0]), -0.0, 0.0),
    "doubles": Limits(pa.array([-1.7976931348623157e308, 5e-324]), -1.7976931348623157e308, 5e-324),
    "floats": Limits(
        pa.array([-3.4028234663852886e38, 1.401298464324817e-45], pa.float32()),
        -3.4028234663852886e38,
        1.401298464324817e-45,
    ),
}
DECIMALS = {
    "15 digits": Limits(
        pa.array([Decimal("-9999999999999.99"), Decimal("9999999999999.99")], pa.decimal128(15, 2)),
        Decimal("-9999999999999.99"),
        Decimal("9999999999999.99"),
    ),
    "small decimals": Limits(
        pa.array([Decimal("-1E-15"), Decimal("1E-15")], pa.decimal128(15, 15)),
        Decimal("-0.000000000000001"),
        Decimal("0.000000000000001"),
    ),
    "38 digits": Limits(
        pa.array([Decimal("-" + "9" * 38), Decimal("9" * 38)], pa.decimal128(38, 0)),
        Decimal("-" + "9" * 38),
        Decimal("9" * 38),
    ),
    "38 places": Limits(
        pa.array([Decimal("1E-38"), Decimal("0." + "9" * 38)], pa.decimal128(38, 38)),
        Decimal("0." + "0" * 37 + "1"),
        Decimal("0." + "9" * 38),
    ),
}
TIMES = {
    "days that ISO 8601 has": Limits(
        viewed(pa.date32(), pa.int32(), FIRST_DAY, LAST_DAY), "0001-01-01", "9999-12-31"
    ),
    "days before and behind": Limits(viewed(pa.date32(), pa.int32(), FIRST_DAY - 1, LAST_DAY + 1)),
    "last days of int32": Limits(viewed(pa.date32(), pa.int32(), -(2**31), 2**31 - 1)),
    "only the last day is behind": Limits(viewed(pa.date32(), pa.int32(), 0, LAST_DAY + 1), low="1970-01-01"),
    **{
        f"{name} {zone or 'without zone'}": Limits(instants("us", zone, *values), *bounds)
        for zone, suffix in (("UTC", "Z"), (None, ""))
        for name, values, bounds in (
            (
                "instants that ISO 8601 has",
                (FIRST_MOMENT, LAST_MOMENT),
                (f"0001-01-01T00:00:00.000000{suffix}", f"9999-12-31T23:59:59.999999{suffix}"),
            ),
            ("instants before and behind", (FIRST_MOMENT - 1, LAST_MOMENT + 1), (None, None)),
            ("last instants of int64", (LOWEST, HIGHEST), (None, None)),
            (
                "only the last instant is behind",
                (0, HIGHEST),
                (f"1970-01-01T00:00:00.000000{suffix}", None),
            ),
        )
    },
}
TEXTS = {
    "long texts": Limits(pa.array([LONG + "a", LONG + "b" * 100]), LONG, LONG + LAST_CHARACTER),
    "a cut before the last character": Limits(pa.array([LONG + LAST_CHARACTER * 2, "a"]), low="a"),
    "the last character at the cut": Limits(
        pa.array([LONG[1:] + LAST_CHARACTER + "b"]), LONG[1:] + LAST_CHARACTER, LONG[1:] + LAST_CHARACTER * 2
    ),
    "characters of four bytes": Limits(
        pa.array(["\U0001f600" * 33, "\ufffd" * 33]),
        "\ufffd" * INDEXED_TEXT_CHARACTERS,
        "\U0001f600" * INDEXED_TEXT_CHARACTERS + LAST_CHARACTER,
    ),
    "characters that JSON escapes in pairs": Limits(
        pa.array(["\U00020bb7野家", "\U0010fffe"]), "\U00020bb7野家", "\U0010fffe"
    ),
    "a text of a megabyte": Limits(pa.array(["a", "b" * 1_000_000]), "a", "b" * 32 + LAST_CHARACTER),
    "control characters": Limits(pa.array(["", "\x00\x1f\x7f"]), "", "\x00\x1f\x7f"),
}
# Types that a Delta table can hold.
IN_TABLES = {**INTEGERS, **FLOATS, **DECIMALS, **TIMES, **TEXTS} | {
    "binary": Limits(pa.array([b"", b"\xff" * 100])),
    "booleans": Limits(pa.array([False, True]), low=False, high=True),
    "only nulls": Limits(pa.array([None, None], pa.int64())),
    "lists": Limits(
        pa.ListArray.from_arrays([0, 2], instants("us", "UTC", LOWEST, HIGHEST)).cast(
            pa.list_(pa.field("element", pa.timestamp("us", "UTC")))
        )
    ),
    "structs": Limits(
        pa.StructArray.from_arrays(
            [instants("us", "UTC", LOWEST, HIGHEST), viewed(pa.date32(), pa.int32(), -(2**31), 2**31 - 1)],
            ["at", "day"],
        )
    ),
    "maps": Limits(
        pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), instants("us", "UTC", LOWEST, HIGHEST))
    ),
}
# Other Arrow types that Parquet can hold.
OTHERS = {
    "milliseconds": Limits(instants("ms", "UTC", LOWEST, HIGHEST)),
    "local milliseconds": Limits(
        instants("ms", None, 0, 1), "1970-01-01T00:00:00.000000", "1970-01-01T00:00:00.001000"
    ),
    "seconds": Limits(instants("s", "UTC", LOWEST // 1000 + 1, 1), high="1970-01-01T00:00:01.000000Z"),
    "nanoseconds": Limits(instants("ns", "UTC", LOWEST, HIGHEST)),
    "local nanoseconds": Limits(instants("ns", None, 1000, 1001), low="1970-01-01T00:00:00.000001"),
    "date64": Limits(viewed(pa.date64(), pa.int64(), -86_400_000 * 2**31, 86_400_000 * (2**31 - 1))),
    "unsigned": Limits(pa.array([0, 2**64 - 1], pa.uint64())),
    "halves": Limits(halves()),
    "time of day": Limits(viewed(pa.time64("ns"), pa.int64(), 0, 86_399_999_999_999)),
    "durations": Limits(viewed(pa.duration("us"), pa.int64(), LOWEST, HIGHEST)),
    "fixed binary": Limits(pa.array([b"\x00\x00", b"\xff\xff"], pa.binary(2))),
    "large binary": Limits(pa.array([b"", b"\xff"], pa.large_binary())),
    "large texts": Limits(pa.array(["a", LONG * 2], pa.large_string()), "a", LONG + LAST_CHARACTER),
    "dictionary": Limits(pa.array(["a", "b"]).dictionary_encode()),
    "nulls": Limits(pa.nulls(2)),
    "76 digits": Limits(
        pa.array([Decimal("9" * 76)], pa.decimal256(76, 0)), Decimal("9" * 76), Decimal("9" * 76)
    ),
    # Spark makes such texts of binary values.
    "texts that are not UTF-8": Limits(not_utf8(), low="a"),
}


def exact(number: str) -> float | Decimal:
    """Return a JSON number. Without an exponent it is a decimal with all digits."""
    return float(number) if "e" in number else Decimal(number)


def cases(limits: dict[str, Limits]) -> Any:
    return [pytest.param(case, id=name) for name, case in limits.items()]


@pytest.mark.parametrize("limits", cases(IN_TABLES | OTHERS))
def test_bounds_are_exact_or_left_out(tmp_path: Path, limits: Limits) -> None:
    schema = pa.schema([("c", limits.values.type)])
    batch = pa.RecordBatch.from_arrays([limits.values], schema=schema)
    part = write_part(str(tmp_path), "part.parquet", schema, [batch])
    assert part is not None
    found = json.loads(part.statistics, parse_float=exact)
    bounds = [found.get(name, {}).get("c") for name in ("minValues", "maxValues")]
    assert bounds == [limits.low, limits.high]
    assert pq.read_metadata(tmp_path / "part.parquet").num_rows == found["numRecords"] == len(limits.values)


def table_of_one_row_files(folder: Path, values: pa.Array) -> DeltaTable:
    schema = pa.schema([("id", pa.int64()), ("c", values.type)])
    log = TableLog(str(folder))
    log.create(schema)
    parts = []
    for place in range(len(values)):
        arrays = [pa.array([place]), values.slice(place, 1)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        parts.append(write_part(str(folder), f"part-{place}.parquet", schema, [rows]))
    log.commit([part for part in parts if part is not None], commit_of(0), schema)
    return DeltaTable(str(folder))


@pytest.mark.parametrize("limits", cases(IN_TABLES))
def test_no_filter_of_arrow_skips_a_row(tmp_path: Path, limits: Limits) -> None:
    rows = table_of_one_row_files(tmp_path, limits.values).to_pyarrow_dataset()
    assert sorted(rows.to_table(columns=["id"])["id"].to_pylist()) == list(range(len(limits.values)))
    if pa.types.is_nested(limits.values.type):
        # Arrow compares no nested values.
        return
    for place, value in enumerate(limits.values):
        column = ds.field("c")
        same = (column == value) if value.is_valid else column.is_null()
        if value.is_valid and pa.types.is_floating(value.type) and math.isnan(value.as_py()):
            same = column.is_nan()
        assert place in rows.to_table(columns=["id"], filter=same)["id"].to_pylist()


@pytest.mark.parametrize("limits", cases(TIMES))
def test_no_filter_of_datafusion_skips_a_time(tmp_path: Path, limits: Limits) -> None:
    builder = QueryBuilder().register("t", table_of_one_row_files(tmp_path, limits.values))
    kind = limits.values.type
    storage, name = (
        (pa.int32(), "Date32") if pa.types.is_date(kind) else (pa.int64(), "Timestamp(Microsecond, None)")
    )
    if pa.types.is_timestamp(kind) and kind.tz:
        name = 'Timestamp(Microsecond, Some("UTC"))'
    for place, value in enumerate(limits.values.view(storage).to_pylist()):
        number = f"arrow_cast('{value}', '{str(storage).capitalize()}')"
        literal = f"arrow_cast({number}, '{name}')"
        for condition in (f"c = {literal}", f"c >= {literal}", f"c <= {literal}"):
            found = pa.table(builder.execute(f"SELECT id FROM t WHERE {condition}"))
            assert place in found["id"].to_pylist()
