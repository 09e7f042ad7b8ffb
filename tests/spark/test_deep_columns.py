"""Columns as deep and as many as a table may have: Spark and deltalake both open it and read them."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.commits import commit_of
from tests.support.writer_cases import WriterCase
from tidemill.errors import DataError
from tidemill.spec.nesting import MAX_LEVELS

# A level of each kind: its type around another one, and its value around another one.
KINDS = {
    "structs": ("struct<a: {}>", "named_struct('a', {})", lambda value: {"a": value}),
    "arrays": ("array<{}>", "array({})", lambda value: [value]),
    "maps": ("map<string, {}>", "map('k', {})", lambda value: [("k", value)]),
}


def nested(kinds: list[str], levels: int) -> tuple[str, str, Any]:
    kind, text, value = "bigint", "7L", 7
    for level in range(levels):
        kind_of, text_of, value_of = KINDS[kinds[level % len(kinds)]]
        kind, text, value = kind_of.format(kind), text_of.format(text), value_of(value)
    return kind, text, value


@pytest.mark.parametrize(
    "kinds", [["structs"], ["arrays"], ["maps"], ["structs", "arrays"], ["maps", "structs"]], ids=str
)
def test_the_deepest_columns_are_read_by_both_readers(case: WriterCase, kinds: list[str]) -> None:
    kind, text, value = nested(kinds, MAX_LEVELS)
    rows = case.spark.sql(f"SELECT 1L AS id, {text} AS deep")
    case.writer(columns=f"id long, deep {kind}").write(rows, commit_of(0))
    table = DeltaTable(str(case.path)).to_pyarrow_table()
    assert table.to_pylist() == [{"id": 1, "deep": value}]
    assert case.spark.read.format("delta").load(str(case.path)).where("deep IS NOT NULL").count() == 1


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_deeper_column_is_refused_and_makes_no_table(case: WriterCase, kind: str) -> None:
    deep, text, _ = nested([kind], MAX_LEVELS + 1)
    rows = case.spark.sql(f"SELECT 1L AS id, {text} AS deep")
    with pytest.raises(DataError) as refused:
        case.writer(columns=f"id long, deep {deep}").write(rows, commit_of(0))
    assert refused.value.error_id == "TIDE-SINK-021"
    assert refused.value.facts == {
        "table": str(case.path),
        "column": "deep",
        "levels": MAX_LEVELS + 1,
        "max_levels": MAX_LEVELS,
    }
    assert not (case.path / "_delta_log").exists()


def test_two_thousand_columns_are_written_and_read(arrow_case: WriterCase) -> None:
    names = [f"measured_value_{number}" for number in range(2000)]
    rows = arrow_case.spark.range(3).selectExpr(
        *(f"id * {place} AS {name}" for place, name in enumerate(names))
    )
    columns = ", ".join(f"{name} long" for name in names)
    arrow_case.writer(columns=columns).write(rows, commit_of(0))
    table = DeltaTable(str(arrow_case.path)).to_pyarrow_table()
    assert (table.num_rows, table.column_names) == (3, names)
    assert sorted(table["measured_value_1999"].to_pylist()) == [0, 1999, 3998]
