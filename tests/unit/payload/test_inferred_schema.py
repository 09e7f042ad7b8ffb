"""Columns that are inferred from JSON values in any order, and the growth of known columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.payload.inferred_schema import MAX_DEPTH, added, all_merged, extended, inferred, leaves, merged
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.json_text import read_raw

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("aAbc .[]"), inner),
    max_leaves=12,
)
records = st.dictionaries(st.sampled_from(["a", "A", "b", "c d", "e.f", "", "_rescued_data"]), values)


def said(value: object) -> dict[str, Any] | None:
    return inferred(read_raw(json.dumps(value)))


@pytest.mark.parametrize(
    ("texts", "column"),
    [
        (["1", "-9223372036854775808"], {"type": "integer"}),
        (["1", "1.0"], {"type": "number"}),
        (["1e2"], {"type": "number"}),
        (["true"], {"type": "boolean"}),
        (['"2026-01-01T00:00:00Z"'], {"type": "string"}),
        (["1", '"a"'], {"type": "string"}),
        (["[1]", "[1.5]", "[]"], {"type": "array", "items": {"type": "number"}}),
        (['{"a": 1}', '{"b": true}', "{}"], None),
        (["null", "[]", "{}", "[null]", "NaN", "9223372036854775808"], None),
        (["9223372036854775808", "1"], {"type": "integer"}),
        (['{"a": 1}', "[1]"], {"type": "string"}),
    ],
)
def test_values_say_one_column_together(texts: list[str], column: dict[str, Any] | None) -> None:
    if column is None and "true" in "".join(texts):
        column = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}}
    found = None
    for text in texts:
        found = merged(found, inferred(read_raw(text)))
    assert found == column


@given(values, values, values)
def test_neither_order_nor_grouping_matters(one: object, other: object, third: object) -> None:
    a, b, c = said(one), said(other), said(third)
    assert merged(a, b) == merged(b, a)
    assert merged(merged(a, b), c) == merged(a, merged(b, c))
    assert merged(a, a) == a
    assert all_merged([a, b, None, c]) == merged(a, merged(b, c))


@given(records, records)
def test_columns_only_ever_grow_and_can_always_be_columns(one: dict[str, Any], other: dict[str, Any]) -> None:
    first = extended(NOTHING, said(one))
    second = extended(first, said(other))
    assert set(leaves(first)) <= set(leaves(second))
    assert extended(second, said(other)) == second == extended(second, said(one))
    # A known column keeps its type: what an older version decodes, a newer one decodes alike.
    assert extended(first, second) == second
    if second["properties"]:
        names = load_payload_schema(second, "test").arrow_schema.names
        assert len({name.lower() for name in names}) == len(names)


def test_names_that_cannot_be_columns_or_are_known_in_another_case_add_none() -> None:
    known = extended(NOTHING, said({"id": 1, "place": {"site": "a"}}))
    odd = {
        "ID": 2,
        "place": {"Site": "b"},
        "a b": 1,
        "a.b": 1,
        "": 1,
        "_rescued_data": "x",
        "_file_path": "x",
        "_Change_Type": "x",
        "x" * 256: 1,
        "n\x00": 1,
        "lists": [{"b c": 1}],
    }
    assert extended(known, said(odd)) == known
    # Of two names that differ only by case, the first in order is added.
    grown = extended(known, said({"zone": 1, "Zone": "a", "new": {"a b": 1, "c": 1}}))
    assert added(known, grown) == ["Zone", "new.c"]


def test_a_column_keeps_its_type_whatever_comes() -> None:
    known = extended(NOTHING, said({"a": 1, "b": {"c": 1}, "d": [1]}))
    assert extended(known, said({"a": "x", "b": 1, "d": {"e": 1}})) == known


def test_deep_values_say_nothing() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = {"a": value}
    assert said(value) is not None
    assert said({"a": value}) is None
