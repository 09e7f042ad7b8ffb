from __future__ import annotations

from typing import Any

import pytest

from tests.support.avro_schemas import field, logical, record
from tidemill.errors import SpecError
from tidemill.payload.avro_schema import load_avro_schema


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
        (record(field("v", {"type": "array", "items": ["null", "shop.Order"]})), "v[]"),
        (record(field("v", record(name="Empty"))), "v"),
        (record(), "the top"),
    ],
)
def test_a_type_that_no_column_can_hold_is_refused(document: dict[str, Any], at: str):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(document, "order.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-062", at)


ENUM = {"type": "enum", "name": "E", "symbols": ["A"], "aliases": ["Old"]}


@pytest.mark.parametrize(
    ("document", "at"),
    [
        (record(field("new", logical("long", "timestamp-micros"), aliases=["old"], default=0)), "new"),
        ({**record(field("v", "int")), "aliases": ["Other"]}, "the top"),
        (record(field("v", {**record(field("x", "int"), name="In"), "aliases": ["Old"]})), "v"),
        (record(field("v", record(field("x", "int", aliases=["y"]), name="In"))), "v.x"),
        (record(field("v", ["null", ENUM])), "v"),
        (record(field("v", {"type": "fixed", "name": "F", "size": 2, "aliases": ["Old"]})), "v"),
        (record(field("v", {"type": "array", "items": ENUM})), "v[]"),
        (record(field("v", {"type": "map", "values": ENUM})), "v[]"),
    ],
)
def test_aliases_are_refused_wherever_they_stand(document: dict[str, Any], at: str):
    """fastavro follows them past the comparison of logical types: milliseconds would be microseconds."""
    with pytest.raises(SpecError) as refused:
        load_avro_schema(document, "order.avsc")
    assert refused.value.error_id == "TIDE-SPEC-062"
    assert refused.value.facts == {"schema": "order.avsc", "at": at, "key": "aliases"}


FIXED = {"type": "fixed", "name": "F", "size": 1}
INNER = record(field("x", "int", default=3), name="In")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("bytes", "\u00ff"),
        (FIXED, "\u00ff"),
        (logical("bytes", "decimal", precision=4, scale=2), "\u00ff"),
        ({**FIXED, "logicalType": "decimal", "precision": 2}, "\u00ff"),
        (["bytes", "null"], "\u00ff"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"]),
        ({"type": "map", "values": ["null", FIXED]}, {"a": "\u00ff"}),
        (INNER, {}),
        ({"type": "array", "items": INNER}, [{}]),
    ],
)
def test_a_default_that_would_be_read_as_another_value_is_refused(kind: Any, default: Any):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(field("id", "int"), field("v", kind, default=default)), "order.avsc")
    assert refused.value.error_id == "TIDE-SPEC-062"
    assert (refused.value.facts["schema"], refused.value.facts["at"]) == ("order.avsc", "v")


def test_a_default_inside_of_a_record_is_refused_at_its_place():
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(field("v", record(field("raw", "bytes", default=""), name="In"))), "o.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-062", "v.raw")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "string"},
        {"type": "record", "name": "A"},
        {"type": "record", "fields": []},
        record({"name": "v"}),
        record(field("v", "Unknown")),
        record(field("v", {"type": "array"})),
        record(field("v", {"type": "enum", "name": "E", "symbols": 5})),
    ],
)
def test_what_is_no_schema_of_a_record_is_refused(document: dict[str, Any]):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(document, "order.avsc")
    assert refused.value.error_id in ("TIDE-SPEC-061", "TIDE-SPEC-062")
    assert refused.value.facts["schema"] == "order.avsc"


@pytest.mark.parametrize("names", [("id", "ID"), ("a b",), ("é",)])
def test_names_that_cannot_name_columns_are_refused(names: tuple[str, ...]):
    with pytest.raises(SpecError) as refused:
        load_avro_schema(record(*(field(name, "int") for name in names)), "order.avsc")
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-024", names[-1])
