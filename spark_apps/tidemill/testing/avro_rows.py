"""Encode rows of a test as Avro data.

fastavro changes some values silently: it writes a number as another one, treats a time without a zone as
local time, and omits a name that the schema lacks. So each value is checked first.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from fastavro import parse_schema, schemaless_writer
from fastavro.validation import ValidationError, validate

from tidemill.payload.avro_schema import load_avro_schema
from tidemill.payload.avro_types import AvroType, plain_union
from tidemill.testing.rows import Row, check_columns, misfit


def as_avro(rows: Sequence[Row], document: dict[str, Any], name: str) -> list[bytes]:
    """Return each row as one datum.

    Args:
        rows: Rows by field; a missing field has its default, or is null.
        document: The writer's schema.
        name: Its file name, for error messages.

    Raises:
        UsageError: TIDE-TEST-003, if a row does not fit.
    """
    schema = load_avro_schema(document, name)
    check_columns(rows, schema.wire.names)
    parsed = parse_schema(copy.deepcopy(document))
    return [
        _datum(place, _typed(place, schema.document.record, row), parsed) for place, row in enumerate(rows)
    ]


def _datum(place: int, row: Any, parsed: Any) -> bytes:
    stream = io.BytesIO()
    try:
        validate(row, parsed, raise_errors=True)
        schemaless_writer(stream, parsed, row)
    except ValidationError as error:
        misfit(place, str(error.errors[0]), "correct the value; a time is a datetime or ISO 8601")
    except (ValueError, TypeError, ArithmeticError) as error:
        misfit(place, str(error), "correct the value")
    return stream.getvalue()


def _typed(place: int, declared: AvroType, value: Any) -> Any:
    """Convert times and dates for fastavro; values of other types stay unchanged."""
    declared, _ = plain_union(declared)
    inside = partial(_typed, place)
    if declared.kind == "record" and isinstance(value, Mapping):
        fields = {field.name: field.type for field in declared.fields}
        check_columns([value], fields, place)
        return {name: inside(fields[name], item) for name, item in value.items()}
    if declared.inner is not None and isinstance(value, list | tuple):
        return [inside(declared.inner, item) for item in value]
    if declared.inner is not None and isinstance(value, Mapping):
        return {key: inside(declared.inner, item) for key, item in value.items()}
    try:
        return _moment(declared.logical, value)
    except ValueError as error:
        misfit(place, str(error), "write a datetime, or ISO 8601")


def _moment(logical: str | None, value: Any) -> Any:
    if logical == "date" and isinstance(value, str):
        return date.fromisoformat(value)
    if logical not in ("timestamp-millis", "timestamp-micros"):
        return value
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC) if isinstance(moment, datetime) and moment.tzinfo is None else moment
