"""Wrong payloads: each is refused with its key and what to write instead."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tidemill.ledger.shape import shape_of

JSON = "json: {schema: order.json}"
AVRO_SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'


@pytest.mark.parametrize(
    ("payload", "key", "says"),
    [
        ("{}", "payload", "exactly one of json, text, csv, avro, protobuf; found none"),
        ("{json: {schema: order.json}, text: {}}", "payload", "found json and text"),
        ("text: {schema: order.json}", "payload.text.schema", "unknown key"),
        ("csv: {}", "payload.csv.schema", "missing"),
        ("csv: {schema: order.json, separator: ';;'}", "payload.csv.separator", "at most 1"),
        ("csv: {schema: order.json, separator: '\"'}", "payload.csv.separator", "cannot separate"),
        ("csv: {schema: order.avsc}", "payload.csv.schema", "order"),
        ("avro: {schema: order.json}", "payload.avro.schema", "order"),
        ("avro: {schema: order.avsc, framing: confluent}", "payload.avro", "needs `ids`"),
        ("avro: {schema: order.avsc, ids: {7: order.avsc}}", "payload.avro", "no number of a schema"),
        (
            "avro: {schema: order.avsc, framing: confluent, ids: {-1: order.avsc}}",
            "payload.avro.ids.-1",
            "0",
        ),
        ("protobuf: {schema: order.desc}", "payload.protobuf.message", "missing"),
        ("protobuf: {schema: order.desc, message: 'shop.'}", "payload.protobuf.message", "match"),
        (
            "protobuf: {schema: order.proto, message: shop.Order}",
            "payload.protobuf.schema",
            "`protoc --include_imports --descriptor_set_out=order.desc order.proto`",
        ),
        (
            "protobuf: {schema: order.desc, message: shop.Order, framing: confluent}",
            "payload.protobuf",
            "{7: event.desc}",
        ),
        (
            "protobuf: {schema: order.desc, message: shop.Order, ids: {7: order.desc}}",
            "payload.protobuf",
            "no number of a schema",
        ),
    ],
)
def test_a_wrong_payload_is_refused_with_its_key(
    project: ConfProject, payload: str, key: str, says: str
) -> None:
    project.write("conf/schemas/order.avsc", AVRO_SCHEMA)
    project.replace(JSON, payload)
    error = project.refusal()
    assert (error.error_id, str(error.facts["key"]).startswith(key)) == ("TIDE-SPEC-003", True), error
    assert says in error.problem


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ("csv: {schema: ordr.json}", "payload.csv.schema"),
        ("avro: {schema: ordr.avsc}", "payload.avro.schema"),
        (
            "avro: {schema: order.avsc, framing: confluent, ids: {7: ordr.avsc}}",
            "payload.avro.ids.7",
        ),
        ("protobuf: {schema: ordr.desc, message: shop.Order}", "payload.protobuf.schema"),
        (
            "protobuf: {schema: order.desc, message: shop.Order, framing: confluent, ids: {7: ordr.desc}}",
            "payload.protobuf.ids.7",
        ),
    ],
)
def test_a_missing_schema_file_is_told_with_the_near_one(
    project: ConfProject, payload: str, key: str
) -> None:
    project.write("conf/schemas/order.avsc", AVRO_SCHEMA)
    project.write("conf/schemas/order.desc", "")
    project.replace(JSON, payload)
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-015", key)
    assert "did you mean order." in error.fix


def test_each_schema_file_is_part_of_the_definition(project: ConfProject) -> None:
    for name in ("old", "new"):
        project.write(f"conf/schemas/{name}.avsc", AVRO_SCHEMA)
    project.replace(JSON, "avro: {schema: new.avsc, framing: confluent, ids: {1: old.avsc, 2: new.avsc}}")
    before = project.resolve()
    assert [file.name for file in before.named_files] == ["new.avsc", "old.avsc"]
    assert before.definition_digest == project.resolve().definition_digest
    project.write("conf/schemas/old.avsc", AVRO_SCHEMA + "\n")
    assert project.resolve().definition_digest != before.definition_digest


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (None, ""),
        ({"json": {"schema": "a.json"}}, "json"),
        ({"json": {"schema": "b.json", "keep_raw": True}}, "json"),
        ({"text": {}}, "text"),
        ({"csv": {"schema": "a.json", "separator": ";"}}, "csv separated by ';'"),
        ({"avro": {"schema": "a.avsc"}}, "avro plain"),
        (
            {"avro": {"schema": "a.avsc", "framing": "confluent", "writers": "registry"}},
            "avro confluent by a registry",
        ),
        ({"protobuf": {"schema": "a.desc", "message": "shop.Order"}}, "protobuf plain shop.Order"),
    ],
)
def test_the_ledger_knows_how_records_were_decoded(project: ConfProject, payload: object, told: str) -> None:
    keys = {} if payload is None else {"payload": payload}
    assert shape_of(declared(project.folder, **keys).spec).payload == told
