from __future__ import annotations

from typing import Any

import pytest

from tests.support.avro_schemas import field, logical, record
from tidemill.errors import SpecError
from tidemill.payload.avro_schema import load_avro_document, load_avro_schema


@pytest.mark.parametrize(
    ("document", "at"),
    [
        (record(field("v", ["int", "string"])), "v"),
        (record(field("v", ["null", "int", "string"])), "v"),
        (record(field("v", "null")), "v"),
        (record(field("v", ["null"])), "v"),
        (record(field("v", logical("long", "time-micros"))), "v"),
        (record(field("v", logical("long", "local-timestamp-micros"))), "v"),
        (record(field("v", logical("bytes", "decimal", precision=39))), "v"),
        (record(field("v", {"type": "fixed", "name": "F", "size": 0})), "v"),
        (record(field("v", record(name="Empty"))), "v"),
        (record(), "the top"),
        (record(field("v", ["null", "Order"])), "v"),
        (record(field("v", {"type": "array", "items": ["null", "shop.Order"]})), "v[]"),
    ],
)
def test_a_type_that_no_column_can_hold_is_refused(document: dict[str, Any], at: str):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(document, "order.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-062", at)


FIXED = {"type": "fixed", "name": "F", "size": 1}
INNER = record(field("x", "int", default=3), field("y", "int"), name="In")
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "1"),
        ("int", 2**31),
        ("int", True),
        ("long", -(2**63) - 1),
        ("double", "1.5"),
        ("double", 10**400),
        ("double", float("nan")),
        ("string", None),
        ("boolean", 0),
        ("bytes", "\u0100"),
        ("bytes", 1),
        (FIXED, "ab"),
        (ENUM, "B"),
        (["null", "int"], "x"),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, []),
        (INNER, {}),
        (INNER, []),
    ],
)
def test_a_default_of_another_type_is_refused(kind: Any, default: Any):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(field("id", "int"), field("v", kind, default=default)), "order.avsc")
    assert refused.value.error_id == "TIDE-SPEC-061"
    assert (refused.value.facts["schema"], refused.value.facts["at"]) == ("order.avsc", "v")


def test_a_default_inside_of_a_record_is_refused_at_its_place():
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(field("v", record(field("raw", "bytes", default=1), name="In"))), "o.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-061", "v.raw")


@pytest.mark.parametrize(
    "document",
    [
        {},
        None,
        ["null"],
        {"type": "string"},
        {"type": "record", "name": "A"},
        {"type": "record", "fields": []},
        record({"name": "v"}),
        record(field("v", "Unknown")),
        record(field("v", {"type": "array"})),
        record(field("v", {"type": "enum", "name": "E", "symbols": 5})),
        record(field("v", {"type": "fixed", "name": "F", "size": -1})),
        record(field("v", {"type": "fixed", "name": "F"})),
        record(field("v", {"type": "map"})),
        record(field("v", ["int", ["null", "string"]])),
        record(field("v", ["int", "int"])),
        record(field("v", [])),
        record(field("v", "int"), field("v", "int")),
        record(field("v", "int", aliases="w")),
        record(field("v", record(field("x", "int")))),
        record(field("v", {"type": "array", "items": "null"})),
        record(
            field("v", {"type": "array", "items": record(field("x", record(name="Inner")), name="Nothing")})
        ),
    ],
)
def test_what_is_no_schema_of_a_record_is_refused(document: Any):
    for load in (load_avro_schema, load_avro_document):
        with pytest.raises(SpecError) as refused:
            load(document, "order.avsc")
        assert (refused.value.error_id, refused.value.facts["schema"]) == ("TIDE-SPEC-061", "order.avsc")


@pytest.mark.parametrize("names", [("id", "ID"), ("a b",), ("é",)])
def test_names_that_cannot_name_columns_are_refused(names: tuple[str, ...]):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(*(field(name, "int") for name in names)), "order.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-024", names[-1])
