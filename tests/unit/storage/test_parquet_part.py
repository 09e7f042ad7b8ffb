"""One data file and the statistics that its log entry carries; bounds never exclude a row that is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.storage.parquet_part import INDEXED_COLUMNS, INDEXED_TEXT_CHARACTERS, statistics, write_part


def write_column(folder: Path, kind: pa.DataType, *values: object) -> dict[str, Any]:
    """Return statistics of a file with the one column `c`."""
    schema = pa.schema([("c", kind)])
    batch = pa.RecordBatch.from_arrays([pa.array(list(values), kind)], schema=schema)
    written = write_part(str(folder), "part.parquet", schema, [batch])
    assert written is not None
    return json.loads(written.statistics)  # type: ignore[no-any-return]


def test_a_file_holds_the_rows_of_all_its_batches(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    batches = [pa.RecordBatch.from_pydict({"id": ids}, schema=schema) for ids in ([1, 2], [], [3])]
    written = write_part(str(tmp_path), "part.parquet", schema, batches)
    assert written is not None
    assert (written.name, written.rows) == ("part.parquet", 3)
    assert written.size == (tmp_path / "part.parquet").stat().st_size
    assert pq.read_table(tmp_path / "part.parquet").column("id").to_pylist() == [1, 2, 3]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    empty = pa.RecordBatch.from_pydict({"id": []}, schema=schema)
    assert write_part(str(tmp_path / "table"), "part.parquet", schema, [empty]) is None
    assert list((tmp_path / "table").iterdir()) == []


def test_a_failure_while_writing_leaves_no_file(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])

    def batches() -> Any:
        yield pa.RecordBatch.from_pydict({"id": [1]}, schema=schema)
        raise OSError("the source went away")

    with pytest.raises(OSError, match="went away"):
        write_part(str(tmp_path), "part.parquet", schema, batches())
    assert [path for path in tmp_path.iterdir() if path.suffix == ".parquet"] == []


def test_rows_with_inferred_nullability_are_written_with_the_tables(tmp_path: Path) -> None:
    place = pa.struct([pa.field("x", pa.float64(), nullable=False)])
    strict = pa.schema(
        [pa.field("places", pa.list_(pa.field("element", place, nullable=False)), nullable=False)]
    )
    table = pa.schema([("places", pa.list_(pa.field("element", pa.struct([("x", pa.float64())]))))])
    batch = pa.RecordBatch.from_pylist([{"places": [{"x": 1.0}]}], schema=strict)
    assert write_part(str(tmp_path), "part.parquet", table, [batch]) is not None
    assert pq.read_table(tmp_path / "part.parquet").to_pylist() == [{"places": [{"x": 1.0}]}]


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (pa.int64(), [3, None, -7], -7, 3),
        (pa.float64(), [-0.5, 1e300], -0.5, 1e300),
        (pa.string(), ["b", "a", "ä"], "a", "ä"),
        (pa.date32(), [date(2024, 2, 29), date(1969, 7, 20)], "1969-07-20", "2024-02-29"),
        (
            pa.timestamp("us", "UTC"),
            [datetime(1969, 7, 20, 20, 17, 40, 123456, UTC), datetime(2024, 1, 1, tzinfo=UTC)],
            "1969-07-20T20:17:40.123456Z",
            "2024-01-01T00:00:00.000000Z",
        ),
        # A local time has no zone, whatever the machine's.
        (
            pa.timestamp("us"),
            [datetime(2024, 3, 31, 2, 30)],  # noqa: DTZ001
            "2024-03-31T02:30:00.000000",
            "2024-03-31T02:30:00.000000",
        ),
        (pa.decimal128(12, 2), [Decimal("-12.34"), Decimal("0.10")], -12.34, 0.1),
        (pa.bool_(), [True, False], False, True),
    ],
)
def test_bounds_of_a_column(
    tmp_path: Path, kind: pa.DataType, values: list[object], low: Any, high: Any
) -> None:
    found = write_column(tmp_path, kind, *values)
    assert found == {
        "numRecords": len(values),
        "minValues": {"c": low},
        "maxValues": {"c": high},
        "nullCount": {"c": values.count(None)},
    }


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        # Spark sorts NaN above all numbers; Parquet's footer leaves it out.
        (pa.float32(), [float("nan")]),
        # JSON has no word for them.
        (pa.float64(), [float("inf")]),
        (pa.float64(), [float("-inf")]),
        (pa.binary(), [b"\x00", b"\xff"]),
        (pa.int64(), [None, None]),
    ],
)
def test_a_column_without_usable_bounds_has_none(
    tmp_path: Path, kind: pa.DataType, values: list[object]
) -> None:
    found = write_column(tmp_path, kind, *values)
    assert not {**found.get("minValues", {}), **found.get("maxValues", {})}
    assert found["nullCount"] == {"c": values.count(None)}


def test_a_nan_in_a_later_batch_leaves_no_maximum(tmp_path: Path) -> None:
    schema = pa.schema([("c", pa.float64())])
    batches = [pa.RecordBatch.from_pydict({"c": [value]}, schema=schema) for value in (1.0, float("nan"))]
    written = write_part(str(tmp_path), "part.parquet", schema, batches)
    assert written is not None
    assert "maxValues" not in json.loads(written.statistics)


def test_nested_columns_have_no_statistics_of_their_own(tmp_path: Path) -> None:
    found = write_column(tmp_path, pa.struct([("x", pa.int64())]), {"x": 1})
    assert found == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_only_the_first_columns_are_indexed(tmp_path: Path) -> None:
    schema = pa.schema([(f"c{number:02}", pa.int64()) for number in range(INDEXED_COLUMNS + 1)])
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, 1)], schema=schema)
    written = write_part(str(tmp_path), "part.parquet", schema, [batch])
    assert written is not None
    assert set(json.loads(written.statistics)["minValues"]) == set(schema.names[:INDEXED_COLUMNS])


def test_row_groups_are_taken_together(tmp_path: Path) -> None:
    schema = pa.schema([("c", pa.int64())])
    pq.write_table(
        pa.table({"c": [None, None, 5, -5]}, schema=schema), tmp_path / "x.parquet", row_group_size=2
    )
    found = statistics(pq.read_metadata(tmp_path / "x.parquet"), schema)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({"c": -5}, {"c": 5}, {"c": 2})


@given(values=st.lists(st.text(min_size=1, max_size=3 * INDEXED_TEXT_CHARACTERS), min_size=1, max_size=5))
def test_cut_text_bounds_hold_every_value(
    tmp_path_factory: pytest.TempPathFactory, values: Sequence[str]
) -> None:
    found = write_column(tmp_path_factory.mktemp("text"), pa.string(), *values)
    low, high = found["minValues"]["c"], found["maxValues"]["c"]
    # Spark compares the bytes of UTF-8, which is the order of code points and so Python's.
    assert low <= min(values)
    assert high >= max(values)
    assert len(low) <= INDEXED_TEXT_CHARACTERS
    assert len(high) <= INDEXED_TEXT_CHARACTERS + 1
