"""Payload schemas in the output of `validate` and `plan`, without Spark."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.protobuf_schemas import PROTOC_MADE

JSON = "json: {schema: order.json}"
AVRO_SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'


@pytest.mark.parametrize(
    ("payload", "schema", "error_id"),
    [
        ("csv: {schema: order.json}", '{"type": "array"}', "TIDE-SPEC-021"),
        ("text: {max_record_bytes: 1g}", "{}", "TIDE-SPEC-025"),
        ("avro: {schema: order.avsc}", "{", "TIDE-SPEC-028"),
        ("avro: {schema: order.avsc}", "[]", "TIDE-SPEC-028"),
        ("avro: {schema: order.avsc}", '{"type": "string"}', "TIDE-SPEC-061"),
        ("avro: {schema: order.avsc}", AVRO_SCHEMA.replace('"int"', '"null"'), "TIDE-SPEC-062"),
        (
            "avro: {schema: order.avsc}",
            AVRO_SCHEMA.replace('"int"', '"int", "aliases": ["key"]'),
            "TIDE-SPEC-026",
        ),
        ("avro: {schema: order.avsc}", AVRO_SCHEMA, "TIDE-SPEC-026"),
        ("protobuf: {schema: order.desc, message: shop.Order}", "{}", "TIDE-SPEC-064"),
        ("text: {}", "{}", "TIDE-SPEC-026"),
    ],
)
def test_validate_reads_the_schemas_of_every_format(
    tidemill: CommandLine, project: ConfProject, payload: str, schema: str, error_id: str
) -> None:
    """Those with TIDE-SPEC-026 have no column `at` for the event time."""
    project.write("conf/schemas/order.json", schema)
    project.write("conf/schemas/order.avsc", schema)
    project.write("conf/schemas/order.desc", schema)
    project.replace(JSON, payload)
    assert tidemill("validate", "orders") == 2
    assert error_id in tidemill.err


def test_the_plan_tells_the_columns_of_every_format(tidemill: CommandLine, project: ConfProject) -> None:
    at = '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}'
    project.write("conf/schemas/order.avsc", AVRO_SCHEMA.replace("}]", "}, " + at + "]"))
    project.replace(JSON, "avro: {schema: order.avsc}")
    assert tidemill.json("plan", "orders")["decoded_columns"] == {
        "id": "int32",
        "at": "timestamp[us, tz=UTC]",
    }


def test_a_pipeline_of_protobuf_is_planned_with_the_columns_of_its_message(
    tidemill: CommandLine, project: ConfProject
) -> None:
    file = project.folder / "conf/schemas/order.desc"
    file.write_bytes((PROTOC_MADE / "types.desc").read_bytes())
    project.replace(JSON, "protobuf: {schema: order.desc, message: shop.Order}")
    columns = tidemill.json("plan", "orders")["decoded_columns"]
    assert (columns["at"], columns["u64"], len(columns)) == ("timestamp[us, tz=UTC]", "decimal128(20, 0)", 37)
    project.replace(JSON, "protobuf: {schema: order.desc, message: shop.Place}")
    assert tidemill("validate", "orders") == 2
    assert "TIDE-SPEC-026" in tidemill.err
