"""Lines of files as rows with what is broken beside them, as each kind of evolution wants it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pyspark.accumulators import Accumulator
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tidemill.payload.csv_files import CsvForm
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.file_lines import inferred_from, line_reading
from tidemill.payload.schema_hints import hinted_columns
from tidemill.payload.source_columns import BROKEN_LINE, BROKEN_REASON, FILE, LINE
from tidemill.spec.files_source import Evolution

GIVEN = StructType([StructField(LINE, BinaryType()), StructField(FILE, StringType())])
LINES = [b'{"id": 1}', b"", b" \t", b'{"id": 2, "zone": "a"}', b'{"id": "x"}', b"{broken"]
BROKEN = (None, "malformed_json", "5", b"{broken")


def read(evolution: Evolution) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Rows as id, reason, file, line; and what the driver is told."""
    told = create_autospec(Accumulator, instance=True)
    columns = DiscoveredColumns(evolution, hinted_columns("id long"), 1, told)
    files = [str(number) for number in range(len(LINES))]
    batch = pa.RecordBatch.from_arrays([pa.array(LINES), pa.array(files)], names=[LINE, FILE])
    reading = line_reading(columns, GIVEN)
    (rows,) = reading.stage(iter([batch]))
    assert rows.schema.names == reading.columns.names
    names = ("id", BROKEN_REASON, FILE, BROKEN_LINE)
    found = [tuple(row[name] for name in names) for row in rows.to_pylist()]
    rescued = {
        row[FILE]: json.loads(row["_rescued_data"])
        for row in rows.to_pylist()
        if row.get("_rescued_data") is not None
    }
    if evolution != "none":
        assert rescued == {
            "3": {"zone": "a", "_file_path": "3"},
            "4": {"id": "x", "_file_path": "4"},
        }
    return sorted(found, key=lambda row: row[2]), [call.args[0] for call in told.add.call_args_list]


@pytest.mark.parametrize("evolution", ["add_columns", "fail", "rescue"])
def test_what_fits_no_column_is_rescued_and_told_where_it_could_be_one(evolution: Evolution) -> None:
    rows, told = read(evolution)
    assert rows == [(1, None, "0", None), (2, None, "3", None), (None, None, "4", None), BROKEN]
    zone = {"type": "object", "properties": {"zone": {"type": "string"}}}
    assert told == ([] if evolution == "rescue" else [zone])


def test_without_evolution_names_are_left_out_and_values_that_do_not_fit_are_broken() -> None:
    rows, told = read("none")
    wrong = (None, "wrong_type:id", "4", b'{"id": "x"}')
    assert rows == [(1, None, "0", None), (2, None, "3", None), wrong, BROKEN]
    assert told == []


def test_columns_are_inferred_from_all_lines_that_are_records() -> None:
    lines = [b'{"a": 1}', b'{"a": 1.5, "b": "x"}', b"", b"{", b"[1]", b'{"a": 1, "a": "x"}', b'"\xff"']
    assert inferred_from(pa.array(lines)) == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "string"}},
    }


def test_versions_and_hints_tell_apart_what_would_give_other_rows() -> None:
    told = create_autospec(Accumulator, instance=True)
    one = DiscoveredColumns("rescue", hinted_columns("id long"), 1, told)
    assert one.identity == DiscoveredColumns("rescue", hinted_columns("id bigint"), 1, told).identity
    others = [
        DiscoveredColumns("rescue", hinted_columns("id string"), 1, told),
        DiscoveredColumns("rescue", hinted_columns("id long"), 2, told),
        DiscoveredColumns("none", hinted_columns("id long"), 1, told),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, told, CsvForm(",")),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, told, CsvForm(";")),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, told, CsvForm(",", ("id",))),
    ]
    assert len({one.identity, *(other.identity for other in others)}) == len(others) + 1
