"""What `validate` and `plan` tell of the payloads' schemas, without Spark."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject

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
            "TIDE-SPEC-062",
        ),
        ("avro: {schema: order.avsc}", AVRO_SCHEMA, "TIDE-SPEC-026"),
        ("text: {}", "{}", "TIDE-SPEC-026"),
    ],
)
def test_validate_reads_the_schemas_of_every_format(
    tidemill: CommandLine, project: ConfProject, payload: str, schema: str, error_id: str
) -> None:
    """The last two have no column `at` for the event time."""
    project.write("conf/schemas/order.json", schema)
    project.write("conf/schemas/order.avsc", schema)
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
