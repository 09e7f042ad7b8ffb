from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.errors import SpecError
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.timestamps import INSTANT

MAP: dict[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}
INSTANTS = {"type": "string", "format": "date-time"}


def schema_with(properties: dict[str, object], **top: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, **top}


def refused(document: dict[str, object]) -> SpecError:
    with pytest.raises(SpecError) as caught:
        load_payload_schema(document, "event.json")
    assert caught.value.facts["schema"] == "event.json"
    return caught.value


def test_each_type_becomes_its_column_in_the_order_of_the_document():
    document = schema_with(
        {
            "name": {"type": "string"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "count": {"type": "integer"},
            "value": {"type": "number"},
            "on": {"type": "boolean"},
            "device": {"type": "object", "properties": {"id": {"type": "string"}}},
            "readings": {"type": "array", "items": {"type": "number"}},
        }
    )
    assert load_payload_schema(document, "event.json").arrow_schema == pa.schema(
        [
            ("name", pa.string()),
            ("at", INSTANT),
            ("count", pa.int64()),
            ("value", pa.float64()),
            ("on", pa.bool_()),
            ("device", pa.struct([("id", pa.string())])),
            ("readings", pa.list_(pa.float64())),
        ]
    )


def test_required_paths_reach_into_objects_and_items():
    item = {"type": "object", "properties": {"v": {"type": ["number", "null"]}}, "required": ["v"]}
    document = schema_with({"id": {"type": "string"}, "l": {"type": "array", "items": item}}, required=["id"])
    schema = load_payload_schema(document, "event.json")
    assert schema.required == (("id",), ("l", "[]", "v"))
    assert schema.required_nullable == {("l", "[]", "v")}


def test_annotations_change_nothing():
    plain = schema_with({"id": {"type": "string"}})
    spoken = schema_with(
        {"id": {"type": "string", "description": "who", "title": "Id", "examples": ["a"]}},
        **{
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "x",
            "additionalProperties": True,
        },
    )
    assert load_payload_schema(plain, "a") == load_payload_schema(spoken, "a")


@pytest.mark.parametrize(
    "keyword",
    ["minimum", "$ref", "default", "items", "properties", "uniqueItems"],
)
def test_a_keyword_that_would_not_be_checked_is_refused(keyword: str):
    error = refused(schema_with({"id": {"type": "string", keyword: 1}}))
    assert error.error_id == "TIDE-SPEC-020"
    assert error.facts["keyword"] == keyword
    assert error.facts["at"] == "id"


def test_a_schema_for_undeclared_properties_is_refused():
    closed = schema_with({"id": {"type": "string"}}, additionalProperties={"type": "string"})
    assert refused(closed).error_id == "TIDE-SPEC-020"


def test_what_a_schema_allows_is_told_by_path_at_any_depth():
    number = {"type": "number", "x-allow-non-finite": True}
    instant = {"type": "string", "format": "date-time", "x-allow-no-offset": True}
    inside = {"type": "object", "properties": {"n": number, "t": instant, "m": {"type": "number"}}}
    strict = {"type": "number", "x-allow-non-finite": False}
    schema = load_payload_schema(
        schema_with({"n": number, "s": strict, "o": inside, "l": {"type": "array", "items": inside}}), "a"
    )
    assert schema.non_finite == {("n",), ("o", "n"), ("l", "[]", "n")}
    assert schema.no_offset == {("o", "t"), ("l", "[]", "t")}


def test_a_misspelt_keyword_names_the_near_one():
    error = refused(schema_with({"id": {"type": "string", "fromat": "date-time"}}))
    assert error.error_id == "TIDE-SPEC-020"
    assert "format" in error.fix


@pytest.mark.parametrize(
    ("document", "error_id"),
    [
        ({}, "TIDE-SPEC-021"),
        ({"type": "array", "items": {}}, "TIDE-SPEC-021"),
        ({"type": "object"}, "TIDE-SPEC-021"),
        ({"type": "object", "properties": {}}, "TIDE-SPEC-021"),
        (schema_with({"id": "string"}), "TIDE-SPEC-021"),
        (schema_with({"l": {"type": "array"}}), "TIDE-SPEC-021"),
        (schema_with({"o": {"type": "object"}}), "TIDE-SPEC-021"),
        (schema_with({"id": {"type": "string"}}, required="id"), "TIDE-SPEC-021"),
        (schema_with({"id": {"type": "number", "x-allow-non-finite": "yes"}}), "TIDE-SPEC-021"),
        (schema_with({"id": {"type": "string", "x-allow-no-offset": True}}), "TIDE-SPEC-020"),
        (schema_with({"id": {"type": "integer", "x-allow-non-finite": True}}), "TIDE-SPEC-020"),
        (schema_with({"id": {}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": "null"}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": "strnig"}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": ["string", "integer"]}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": "string", "format": "uudi"}}), "TIDE-SPEC-022"),
        (
            schema_with({"at": {"type": "string", "format": "date", "x-allow-no-offset": True}}),
            "TIDE-SPEC-020",
        ),
        (schema_with({"id": {"type": "number", "x-decimal": [39, 2]}}), "TIDE-SPEC-021"),
        (schema_with({"m": MAP}), "TIDE-SPEC-021"),
        (schema_with({"o": {"type": "object", "properties": {"m": MAP}}}), "TIDE-SPEC-022"),
        (schema_with({"m": {"type": "object", "additionalProperties": INSTANTS}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": "number", "x-decimal": "10,2"}}), "TIDE-SPEC-021"),
        (schema_with({"id": {"type": "number", "x-decimal": [9, 2], "minimum": 0}}), "TIDE-SPEC-020"),
        # The error is in a condition, where a validator would ignore or fetch it.
        (schema_with({"id": {"type": "string"}}, **{"not": {"requierd": ["id"]}}), "TIDE-SPEC-020"),
        (
            schema_with({"id": {"type": "string"}}, allOf=[{"$ref": "http://127.0.0.1/a.json"}]),
            "TIDE-SPEC-020",
        ),
        (schema_with({"id": {"type": "string", "anyOf": [{"format": "uudi"}]}}), "TIDE-SPEC-022"),
        (schema_with({"id": {"type": "string"}}, required=["ID"]), "TIDE-SPEC-023"),
        (schema_with({"": {"type": "string"}}), "TIDE-SPEC-024"),
        (schema_with({"a b": {"type": "string"}}), "TIDE-SPEC-024"),
        (schema_with({"id": {"type": "string"}, "Id": {"type": "string"}}), "TIDE-SPEC-024"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_own_id(document: dict[str, object], error_id: str):
    assert refused(document).error_id == error_id


def test_a_required_name_that_is_not_declared_names_the_near_one():
    assert "device_id" in refused(schema_with({"device_id": {"type": "string"}}, required=["devce_id"])).fix
