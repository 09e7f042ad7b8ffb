"""Schema drift: what is said of each change from one payload schema to the next."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.payload.avro_schema import load_avro_schema
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.schema_changes import SchemaChange, avro_schema_changes, json_schema_changes

TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
INSTANT = {**TEXT, "format": "date-time"}
Properties = dict[str, Any]


def of(*inner: str, required: tuple[str, ...] = (), **properties: Any) -> Properties:
    """Return an object of texts, and of what is named."""
    return {
        "type": "object",
        "properties": {**dict.fromkeys(inner, TEXT), **properties},
        "required": list(required),
    }


def several(item: Properties) -> Properties:
    return {"type": "array", "items": item}


# Old schema, new schema, and the finding: path, change, and True if it is compatible.
JSON_DRIFT: dict[str, tuple[Properties, Properties, list[tuple[str, str, bool]]]] = {
    "nothing": (of("id"), of("id"), []),
    "another order": (of("id", "zone"), of("zone", "id"), []),
    "a description": (of("id"), of(id={**TEXT, "description": "who"}), []),
    "a column more": (of("id"), of("id", "zone"), [("zone", "column_added", True)]),
    "a required column more": (
        of("id"),
        of("id", "zone", required=("zone",)),
        [("zone", "became_required", False), ("zone", "column_added", True)],
    ),
    "an object more, with what it requires": (
        of("id"),
        of("id", place=of("site", required=("site",))),
        [("place", "column_added", True)],
    ),
    "a field more inside of an object": (
        of(place=of("site")),
        of(place=of("site", "floor")),
        [("place.floor", "column_added", True)],
    ),
    "a field more in each item": (
        of(parts=several(of("size"))),
        of(parts=several(of("size", "kind"))),
        [("parts[].kind", "column_added", True)],
    ),
    "a column less": (of("id", "zone"), of("id"), [("zone", "column_removed", False)]),
    "a required column less": (of("id", "z", required=("z",)), of("id"), [("z", "column_removed", False)]),
    "a field less in each item": (
        of(parts=several(of("size", "kind"))),
        of(parts=several(of("size"))),
        [("parts[].kind", "column_removed", False)],
    ),
    "a column renamed": (
        of("id", "zone"),
        of("id", "area"),
        [("area", "column_added", True), ("zone", "column_removed", False)],
    ),
    "a column in another case": (of("id"), of("Id"), [("Id", "type_changed", False)]),
    "an integer becomes a number": (of(n=WHOLE), of(n=NUMBER), [("n", "type_changed", False)]),
    "a text becomes a time": (of("at"), of(at=INSTANT), [("at", "type_changed", False)]),
    "a value becomes a list": (of("id"), of(id=several(TEXT)), [("id", "type_changed", False)]),
    "an item's type": (of(l=several(TEXT)), of(l=several(WHOLE)), [("l[]", "type_changed", False)]),
    "more digits": (
        of(price={**NUMBER, "x-decimal": [10, 2]}),
        of(price={**NUMBER, "x-decimal": [12, 2]}),
        [("price", "type_changed", False)],
    ),
    "it must be there": (of("id"), of("id", required=("id",)), [("id", "became_required", False)]),
    "it may be missing": (of("id", required=("id",)), of("id"), [("id", "became_optional", True)]),
    "it must not be null": (
        of(id={"type": ["string", "null"]}, required=("id",)),
        of("id", required=("id",)),
        [("id", "null_refused", False)],
    ),
    "it may be null": (
        of("id", required=("id",)),
        of(id={"type": ["string", "null"]}, required=("id",)),
        [("id", "null_allowed", True)],
    ),
    "times need an offset": (
        of(at={**INSTANT, "x-allow-no-offset": True}),
        of(at=INSTANT),
        [("at", "no_offset_refused", False)],
    ),
    "NaN is good": (
        of(n=NUMBER),
        of(n={**NUMBER, "x-allow-non-finite": True}),
        [("n", "non_finite_allowed", True)],
    ),
    "one value more": (
        of(k={**TEXT, "enum": ["a"]}),
        of(k={**TEXT, "enum": ["b", "a"]}),
        [("k", "enum_changed", True)],
    ),
    "one value less": (
        of(k={**TEXT, "enum": ["a", "b"]}),
        of(k={**TEXT, "enum": ["a"]}),
        [("k", "enum_changed", False)],
    ),
    "a lower bound is lowered": (
        of(n={**NUMBER, "minimum": 0}),
        of(n={**NUMBER, "minimum": -5}),
        [("n", "minimum_changed", True)],
    ),
    "an upper bound is lowered": (
        of(n={**NUMBER, "maximum": 9}),
        of(n={**NUMBER, "maximum": 5}),
        [("n", "maximum_changed", False)],
    ),
    "a pattern comes": (of("id"), of(id={**TEXT, "pattern": "^a"}), [("id", "pattern_added", False)]),
    "a pattern goes": (of(id={**TEXT, "pattern": "^a"}), of("id"), [("id", "pattern_removed", True)]),
    "a column with a condition comes": (
        of("id"),
        of("id", n={**NUMBER, "minimum": 0}),
        [("n", "column_added", True), ("n", "minimum_added", True)],
    ),
    "a column with a condition goes": (
        of("id", n={**NUMBER, "minimum": 0}),
        of("id"),
        [("n", "column_removed", False)],
    ),
    "no other properties": (
        of("id"),
        {**of("id"), "additionalProperties": False},
        [("", "additionalProperties_added", False)],
    ),
}


@pytest.mark.parametrize("case", JSON_DRIFT)
def test_each_change_of_a_json_schema_is_named_and_judged(case: str) -> None:
    old, new, expected = JSON_DRIFT[case]
    changes = json_schema_changes(load_payload_schema(old, "old"), load_payload_schema(new, "new"))
    assert told(changes) == expected


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    """Return a record schema; a field with a third part has a default."""
    made = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": "Event", "fields": made}


def kinds(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Kind", "symbols": list(symbols)}


MAYBE = ["null", "string"]
AVRO_DRIFT: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str, bool]]]] = {
    "nothing": (record(("id", "long")), record(("id", "long")), []),
    "a field with a default more": (
        record(("id", "long")),
        record(("id", "long"), ("zone", MAYBE, None)),
        [("zone", "column_added", True)],
    ),
    "a field without a default more": (
        record(("id", "long")),
        record(("id", "long"), ("zone", "string")),
        [("zone", "column_added", True), ("zone", "unreadable", False)],
    ),
    "a field less": (
        record(("id", "long"), ("zone", "string")),
        record(("id", "long")),
        [("zone", "column_removed", False)],
    ),
    # Avro reads it; the table's column stays what it is.
    "an int becomes a long": (
        record(("id", "int")),
        record(("id", "long")),
        [("id", "type_changed", False)],
    ),
    "a text becomes a number": (
        record(("id", "string")),
        record(("id", "long")),
        [("id", "type_changed", False)],
    ),
    "milliseconds become microseconds": (
        record(("at", {"type": "long", "logicalType": "timestamp-millis"})),
        record(("at", {"type": "long", "logicalType": "timestamp-micros"})),
        [("at", "unreadable", False)],
    ),
    "it must not be null": (
        record(("zone", MAYBE)),
        record(("zone", "string")),
        [("zone", "values_refused", False)],
    ),
    "it may be null": (record(("zone", "string")), record(("zone", MAYBE)), []),
    "one symbol more": (record(("k", kinds("a"))), record(("k", kinds("a", "b"))), []),
    "one symbol less": (
        record(("k", kinds("a", "b"))),
        record(("k", kinds("a"))),
        [("k", "values_refused", False)],
    ),
    "a null less in each item": (
        record(("l", {"type": "array", "items": MAYBE})),
        record(("l", {"type": "array", "items": "string"})),
        [("l[]", "values_refused", False)],
    ),
    "another name of the record": (
        record(("id", "long")),
        {**record(("id", "long")), "name": "Other"},
        [("", "unreadable", False)],
    ),
}


@pytest.mark.parametrize("case", AVRO_DRIFT)
def test_each_change_of_an_avro_schema_is_named_and_judged(case: str) -> None:
    old, new, expected = AVRO_DRIFT[case]
    assert told(avro_schema_changes(load_avro_schema(old, "old"), load_avro_schema(new, "new"))) == expected


def told(changes: list[SchemaChange]) -> list[tuple[str, str, bool]]:
    assert all(change.reason for change in changes)
    return [(change.path, change.change, change.compatible) for change in changes]
