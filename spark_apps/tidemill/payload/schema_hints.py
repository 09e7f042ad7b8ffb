"""Schema hints: Spark DDL as JSON Schema, for the columns of files that are not inferred."""

from __future__ import annotations

import re
from typing import Any

from tidemill.errors import SpecError
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.source_columns import RESERVED_NAMES
from tidemill.spec.ddl import split_columns, split_parts
from tidemill.spec.files_source import FilesSource

Node = dict[str, Any]

_SCALARS: dict[str, Node] = {
    "string": {"type": "string"},
    "long": {"type": "integer"},
    "bigint": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
# A value of JSON has no size: these would need checks that a decoder of its numbers does not make.
_INSTEAD = {"int": "long", "integer": "long", "smallint": "long", "tinyint": "long", "float": "double"}


def hints_of(files: FilesSource) -> Node:
    """The columns that a files source hints at.

    Raises:
        SpecError: As `hinted_columns`; also TIDE-SPEC-034, if a field of the format cannot hold one.
    """
    columns = hinted_columns(files.schema_hints)
    nested = [name for name, node in columns["properties"].items() if node["type"] in ("object", "array")]
    if nested and files.format == "csv":
        raise _unusable(f"{nested[0]!a} holds other values, which a field of CSV does not")
    return columns


def hinted_columns(ddl: str | None) -> Node:
    """The columns of a DDL text, as JSON Schema.

    Raises:
        SpecError: TIDE-SPEC-034, if the text cannot be read or has a type that JSON has not; 020 to 024, if
            one cannot be a column.
    """
    properties = _hinted(ddl)
    columns: Node = {"type": "object", "properties": properties}
    # Maps alone are checked once there are others.
    if any("additionalProperties" not in node for node in properties.values()):
        load_payload_schema(columns, "schema_hints")
    return columns


def _hinted(ddl: str | None) -> dict[str, Node]:
    try:
        return _properties(ddl, is_top=True) if ddl is not None else {}
    except ValueError as error:
        raise _unusable(error) from error


def _unusable(reason: object) -> SpecError:
    return SpecError(
        "TIDE-SPEC-034",
        "The schema hints of a files source cannot be used.",
        facts={"key": "source.files.schema_hints", "reason": reason},
        fix="write Spark DDL, e.g. `at timestamp, price decimal(10, 2), place struct<site: string>`; of CSV "
        "files plain types only",
    )


def _properties(ddl: str, *, is_top: bool = False) -> dict[str, Node]:
    columns = split_columns(ddl)
    dotted = [name for name in columns if not name.isprintable() or set(name) & set(".[]`")]
    if dotted:
        raise ValueError(f"a dot, bracket or backtick stands in the name {dotted[0]!a}")
    reserved = [name for name in columns if is_top and name.lower() in RESERVED_NAMES]
    if reserved:
        raise ValueError(f"the name {reserved[0]!a} has a meaning of its own")
    return {name: _node(text.strip(), is_top=is_top) for name, text in columns.items()}


def _node(text: str, *, is_top: bool = False) -> Node:
    outer, _, inner = text.removesuffix(">").partition("<")
    kind = outer.strip().lower()
    if inner and text.endswith(">"):
        if kind == "struct":
            return {"type": "object", "properties": _properties(inner)}
        if kind == "array":
            return {"type": "array", "items": _node(inner.strip())}
        if kind == "map":
            return _map(inner, is_top=is_top)
    if (digits := re.fullmatch(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", text, re.IGNORECASE)) is not None:
        return {"type": "number", "x-decimal": [int(digits[1]), int(digits[2])]}
    if text.lower() in _SCALARS:
        return dict(_SCALARS[text.lower()])
    instead = _INSTEAD.get(text.lower())
    raise ValueError(f"the type {text[:60]!a} is not one of JSON" + (f": use {instead}" if instead else ""))


def _map(inner: str, *, is_top: bool) -> Node:
    parts = [part.strip() for part in split_parts(inner)]
    if not is_top or len(parts) != 2 or parts[0].lower() != "string":
        raise ValueError("a map stands at the top, and its keys are strings: map<string, double>")
    return {"type": "object", "additionalProperties": _node(parts[1])}
