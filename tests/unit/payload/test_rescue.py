"""Lines whose columns are discovered: each value is in its column or in the rescued data."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.payload.inferred_schema import added, extended, inferred
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.json_text import read_raw
from tidemill.payload.rescue import Rescued, RescuingDecoder
from tidemill.payload.schema_hints import hinted_columns

COLUMNS = extended(
    hinted_columns("at timestamp, cost decimal(5, 2)"),
    inferred(
        read_raw(
            '{"id": 1, "price": 1.5, "on": true, "place": {"site": "a", "floor": 1}, '
            '"parts": [{"size": 1, "name": "a"}]}'
        )
    ),
)
MAPPED = extended(COLUMNS, hinted_columns("tags map<string, long>"))

Row = dict[str, Any]


def decoder(columns: dict[str, Any] = COLUMNS) -> RescuingDecoder:
    return RescuingDecoder(columns, load_payload_schema(columns, "test"))


def decode(*lines: str | bytes, columns: dict[str, Any] = COLUMNS) -> Rescued:
    values = [line.encode() if isinstance(line, str) else line for line in lines]
    return decoder(columns).decode(pa.array(values, pa.binary()), "file-{}".format)


def one(line: str, columns: dict[str, Any] = COLUMNS) -> tuple[Row, Row | None]:
    """Return the row without nulls, and the rescued values."""
    read = decode(line, columns=columns)
    assert not read.decoded.reasons
    (row,) = read.decoded.rows.to_pylist()
    rescued = row.pop("_rescued_data")
    return {name: value for name, value in row.items() if value is not None}, rescued and json.loads(rescued)


PATH = {"_file_path": "file-0"}


@pytest.mark.parametrize("columns", [COLUMNS, MAPPED], ids=["closed decoder", "line by line"])
@pytest.mark.parametrize(
    ("line", "row", "rescued"),
    [
        ('{"id": 1}', {"id": 1}, None),
        ('{"id": 1, "new": null}', {"id": 1}, None),
        ('{"id": 1, "new": "a"}', {"id": 1}, {"new": "a"}),
        ('{"id": 1, "ID": 2}', {"id": 1}, {"ID": 2}),
        ('{"id": "1"}', {}, {"id": "1"}),
        ('{"id": 1.5, "price": "x", "on": 0}', {}, {"id": 1.5, "price": "x", "on": 0}),
        ('{"id": 1.0, "parts": [{"size": 2e1}]}', {"id": 1, "parts": [{"name": None, "size": 20}]}, None),
        ('{"id": 1.0, "new": 1.0}', {"id": 1}, {"new": 1.0}),
        ('{"id": 1e2, "price": "x"}', {"id": 100}, {"price": "x"}),
        ('{"id": 9223372036854775808}', {}, {"id": 9223372036854775808}),
        ('{"at": "yesterday"}', {}, {"at": "yesterday"}),
        ('{"at": "2026-01-01T00:00:00"}', {}, {"at": "2026-01-01T00:00:00"}),
        ('{"cost": 1234.5}', {}, {"cost": 1234.5}),
        ('{"price": NaN}', {}, {"price": "NaN"}),
        ('{"new": [NaN]}', {}, {"new": ["NaN"]}),
        ('{"place": "a"}', {}, {"place": "a"}),
        (
            '{"place": {"site": "a", "floor": "x", "by": {"c": 1}}}',
            {"place": {"floor": None, "site": "a"}},
            {"place": {"floor": "x", "by": {"c": 1}}},
        ),
        (
            '{"parts": [{"size": 1, "by": 2}]}',
            {"parts": [{"name": None, "size": 1}]},
            {"parts": [{"size": 1, "by": 2}]},
        ),
        ('{"parts": [{"size": 1}, {"size": "x"}]}', {}, {"parts": [{"size": 1}, {"size": "x"}]}),
        (
            '{"parts": [{"size": "x", "by": 2}], "id": 1}',
            {"id": 1},
            {"parts": [{"size": "x", "by": 2}]},
        ),
        ('{"new": {"a b": 1}, "e": [], "o": {}}', {}, {"new": {"a b": 1}, "e": [], "o": {}}),
    ],
)
def test_each_value_is_in_its_column_or_rescued(
    line: str, row: Row, rescued: Row | None, columns: dict[str, Any]
) -> None:
    assert one(line, columns) == (row, rescued and {**rescued, **PATH})


def test_rescued_numbers_stay_as_they_are_written() -> None:
    (row,) = decode('{"n": 1.10, "m": 1e400, "k": 123456789012345678901234567890}').decoded.rows.to_pylist()
    assert row["_rescued_data"] == (
        '{"n":1.10,"m":1e400,"k":123456789012345678901234567890,"_file_path":"file-0"}'
    )


def test_lines_that_are_no_rows_keep_their_reason() -> None:
    deep = '{"new": ' + "[" * 900 + "]" * 900 + "}"
    lines = [
        '{"id": 1}',
        "{broken",
        "[1]",
        '{"id": 1, "id": 2}',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        '{"_file_path": "x"}',
        b'{"id": "\xff"}',
        deep,
        '{"id": 2, "new": 1}',
        deep.replace("new", "id"),
        deep.replace("{", '{"at": 1, ').replace("new", "price"),
    ]
    decoded = decode(*lines).decoded
    assert dict(zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True)) == {
        1: "malformed_json",
        2: "not_an_object",
        3: "duplicate_field:id",
        4: "duplicate_field:a",
        5: "duplicate_field:b",
        6: "reserved_name:_file_path",
        7: "invalid_utf8",
        8: "not_decodable",
        10: "wrong_type:id",
        11: "wrong_type:at",
    }
    rows = dict(zip(decoded.kept.to_pylist(), decoded.rows["id"].to_pylist(), strict=True))
    assert rows == {0: 1, 9: 2}


@pytest.mark.parametrize("columns", [COLUMNS, MAPPED], ids=["closed decoder", "line by line"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": 1, "new": {"a": 1}', "malformed_json"),
        ('{"id": 1, "new": 2 oops}', "malformed_json"),
        ('{"id": 1, "new": 1,}', "malformed_json"),
        ('{"id": 1, "new": "\t"}', "malformed_json"),
        ('{"id": 1, "new": "\\ud800"}', "malformed_json"),
        ('{"id": 1, "\\udc00": 1}', "malformed_json"),
        ('{"id": 1, "price": 1e400, "new": 1}', "not_decodable"),
    ],
)
def test_a_broken_line_that_seems_to_have_a_new_name_is_rejected(
    line: str, reason: str, columns: dict[str, Any]
) -> None:
    """Before it is known to be broken its names are counted; they say nothing of columns."""
    read = decode('{"id": 1}', line, '{"id": 2}', columns=columns)
    assert (read.decoded.rejected.to_pylist(), read.decoded.reasons) == ([1], [reason])
    assert sorted(read.decoded.rows["id"].to_pylist()) == [1, 2]
    assert read.found is None


def test_numbers_that_only_one_parser_reads_keep_their_reason() -> None:
    read = decode('{"price": -NaN}', '{"price": Inf}', '{"id": 1}', '{"new": Inf}').decoded
    assert read.reasons == ["not_finite:price", "not_finite:price", "malformed_json"]


def test_a_map_takes_all_names_and_its_values_are_rescued_as_a_whole() -> None:
    row, rescued = one('{"tags": {"a": 1, "b": 2}, "id": 1}', MAPPED)
    assert (row, rescued) == ({"tags": [("a", 1), ("b", 2)], "id": 1}, None)
    assert one('{"tags": {"a": "x"}, "id": 1}', MAPPED) == ({"id": 1}, {"tags": {"a": "x"}, **PATH})


def test_what_has_no_column_is_found_with_its_type() -> None:
    read = decode('{"new": 1}', '{"new": 1.5, "place": {"by": "a"}}', '{"parts": [{"kind": "b"}], "ID": 1}')
    assert added(COLUMNS, extended(COLUMNS, read.found)) == ["new", "parts[].kind", "place.by"]
    assert decode('{"id": 1}', '{"id": "x"}').found in (None, {"type": "object", "properties": {}})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)
PLACES = st.dictionaries(st.sampled_from(["site", "floor", "Site", "by"]), VALUES)
RECORDS = st.dictionaries(st.sampled_from(["id", "price", "on", "ID", "x"]), VALUES).flatmap(
    lambda record: PLACES.map(lambda place: {**record, "place": place})
)


@settings(max_examples=60)
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_no_value_is_lost_and_neighbours_do_not_matter(records: list[Row]) -> None:
    lines = [json.dumps(record) for record in records]
    decoded = decode(*lines).decoded
    rows = dict(zip(decoded.kept.to_pylist(), decoded.rows.to_pylist(), strict=True))
    rejected = set(decoded.rejected.to_pylist())
    assert sorted([*rows, *rejected]) == list(range(len(lines)))
    for place, row in rows.items():
        rescued = json.loads(row["_rescued_data"] or "{}")
        rescued.pop("_file_path", None)
        assert _without_nulls(_together(row, rescued)) == _without_nulls(records[place])
        alone = decode(lines[place]).decoded.rows.to_pylist()[0]
        assert alone.pop("_rescued_data") is None or row["_rescued_data"] is not None
        assert alone == {name: value for name, value in row.items() if name != "_rescued_data"}


def _together(row: Row, rescued: Row) -> Row:
    whole = {name: value for name, value in row.items() if name != "_rescued_data"}
    place = {**(whole.get("place") or {}), **(rescued.get("place") or {})}
    return {**whole, **rescued, "place": place}


def _without_nulls(record: Row) -> Row:
    """Null says the same as nothing. A number is what its text says, not the nearest double."""
    kept = {name: _exact(value) for name, value in record.items() if value is not None}
    if isinstance(price := record.get("price"), int | float) and not isinstance(price, bool):
        # Its column has doubles.
        kept["price"] = float(price)
    if isinstance(price := record.get("price"), int | float) and not isinstance(price, bool):
        # Its column has doubles.
        kept["price"] = float(price)
    place = {name: _exact(value) for name, value in record["place"].items() if value is not None}
    return {**kept, "place": place}


def _exact(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, float) else value
