"""JSON files whose columns are discovered, with each kind of evolution."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pyspark.accumulators import Accumulator

from tests.support.read_files import Decoded, read_discovered
from tidemill.payload.discovered import CsvForm, DiscoveredColumns
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.discovered_records import inferred_from
from tidemill.payload.files.records import FileRecords
from tidemill.payload.schema_hints import hinted_columns
from tidemill.spec.files_source import Evolution
from tidemill.storage.object_stores import NO_ACCESS

LINES = [b'{"id": 1}', b"", b" \t", b'{"id": 2, "zone": "a"}', b'{"id": "x"}', b"{broken"]
NO_FILE = FileRange("file:/a", "file:/a", datetime(2026, 3, 1, tzinfo=UTC), 0, 0, 0, None, NO_ACCESS)
BROKEN = ("malformed_json", 6, b"{broken")


def read(folder: Path, evolution: Evolution) -> tuple[Decoded, list[Any]]:
    """Return rows and rejected lines, and the new columns that the driver is given."""
    reported = create_autospec(Accumulator, instance=True)
    columns = DiscoveredColumns(evolution, hinted_columns("id long"), 1, reported)
    found = read_discovered(folder, {"a.json": b"\n".join(LINES)}, columns)
    return found, [call.args[0] for call in reported.add.call_args_list]


def rescued_of(row: dict[str, Any]) -> dict[str, Any] | None:
    if row["_rescued_data"] is None:
        return None
    rescued: dict[str, Any] = json.loads(row["_rescued_data"])
    assert rescued.pop("_file_path").endswith("/landing/a.json")
    return rescued


@pytest.mark.parametrize("evolution", ["add_columns", "fail", "rescue"])
def test_a_value_without_a_column_is_rescued_and_reported_if_it_could_be_one(
    tmp_path: Path, evolution: Evolution
) -> None:
    found, reported = read(tmp_path, evolution)
    rows = sorted((row["id"] or 0, rescued_of(row)) for row in found.rows if row["id"] != 1)
    assert rows == [(0, {"id": "x"}), (2, {"zone": "a"})]
    assert [(each.reason, each.line, each.value) for each in found.rejected] == [BROKEN]
    zone = {"type": "object", "properties": {"zone": {"type": "string"}}}
    assert reported == ([] if evolution == "rescue" else [zone])


def test_without_evolution_names_are_left_out_and_values_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    found, reported = read(tmp_path, "none")
    assert found.rows == [{"id": 1}, {"id": 2}]
    wrong = ("wrong_type:id", 5, b'{"id": "x"}')
    assert [(each.reason, each.line, each.value) for each in found.rejected] == [wrong, BROKEN]
    assert reported == []


def test_columns_are_inferred_from_all_lines_that_are_records() -> None:
    lines = [b'{"a": 1}', b'{"a": 1.5, "b": "x"}', b"", b"{", b"[1]", b'{"a": 1, "a": "x"}', b'"\xff"']
    records = FileRecords.of(NO_FILE, pa.array(lines), pa.arange(1, len(lines) + 1))
    assert inferred_from(records, None) == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "string"}},
    }


def test_the_identity_differs_where_rows_would_differ() -> None:
    reported = create_autospec(Accumulator, instance=True)
    one = DiscoveredColumns("rescue", hinted_columns("id long"), 1, reported)
    assert one.identity == DiscoveredColumns("rescue", hinted_columns("id bigint"), 1, reported).identity
    others = [
        DiscoveredColumns("rescue", hinted_columns("id string"), 1, reported),
        DiscoveredColumns("rescue", hinted_columns("id long"), 2, reported),
        DiscoveredColumns("none", hinted_columns("id long"), 1, reported),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, reported, CsvForm(",")),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, reported, CsvForm(";")),
        DiscoveredColumns("rescue", hinted_columns("id long"), 1, reported, CsvForm(",", ("id",))),
    ]
    assert len({one.identity, *(other.identity for other in others)}) == len(others) + 1
