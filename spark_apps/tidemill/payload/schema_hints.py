"""Schema hints: Spark DDL as JSON Schema, for the columns of files that are not inferred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.errors import SpecError
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.source_columns import RESERVED_NAMES
from tidemill.spec.ddl import DdlColumn, DdlType, parse_columns
from tidemill.spec.files_source import FilesSource

Node = dict[str, Any]

_SCALARS: dict[str, Node] = {
    "string": {"type": "string"},
    "bigint": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}
# JSON values have no size, so these types would need checks that the decoder does not make.
_INSTEAD = {
    **dict.fromkeys(("int", "smallint", "tinyint"), "long"),
    "float": "double",
    **dict.fromkeys(("char", "varchar"), "string"),
}


def hints_of(files: FilesSource) -> Node:
    """Return the columns that a files source hints at.

    Raises:
        SpecError: See `hinted_columns`; also TIDE-SPEC-034, if a field of the format cannot store one.
    """
    columns = hinted_columns(files.schema_hints)
    nested = [name for name, node in columns["properties"].items() if node["type"] in ("object", "array")]
    if nested and files.format == "csv":
        raise _unusable(f"{nested[0]!a} holds other values, which a field of CSV does not")
    return columns


def hinted_columns(ddl: str | None) -> Node:
    """Return the columns of a DDL text, as JSON Schema.

    Raises:
        SpecError: TIDE-SPEC-034, if the text cannot be read or has a type that JSON lacks; 020 to 024, if one
            cannot be a column.
    """
    properties = _hinted(ddl)
    columns: Node = {"type": "object", "properties": properties}
    # If there are only maps, they are checked later, when there are other columns.
    if any("additionalProperties" not in node for node in properties.values()):
        load_payload_schema(columns, "schema_hints")
    return columns


def _hinted(ddl: str | None) -> dict[str, Node]:
    try:
        return _properties(parse_columns(ddl), is_top=True) if ddl is not None else {}
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


def _properties(columns: Sequence[DdlColumn], *, is_top: bool = False) -> dict[str, Node]:
    for column in columns:
        if not column.name.isprintable() or set(column.name) & set(".[]`"):
            raise ValueError(f"a dot, bracket or backtick is in the name {column.name!a}")
        if is_top and column.name.lower() in RESERVED_NAMES:
            raise ValueError(f"the name {column.name!a} is reserved")
        if column.required:
            raise ValueError(f"{column.name!a} is NOT NULL: a hint gives a type, and any file may lack it")
    return {column.name: _node(column.type, is_top=is_top) for column in columns}


def _node(kind: DdlType, *, is_top: bool = False) -> Node:
    if kind.name == "struct":
        return {"type": "object", "properties": _properties(kind.fields)}
    if kind.name == "array":
        return {"type": "array", "items": _node(kind.parts[0])}
    if kind.name == "map":
        return _map(*kind.parts, is_top=is_top)
    if kind.name == "decimal":
        return {"type": "number", "x-decimal": list(kind.numbers)}
    if kind.name in _SCALARS:
        return dict(_SCALARS[kind.name])
    instead = _INSTEAD.get(kind.name)
    raise ValueError(f"JSON has no type {kind.name}" + (f": use {instead}" if instead else ""))


def _map(key: DdlType, value: DdlType, *, is_top: bool) -> Node:
    if not is_top or key.name != "string":
        raise ValueError("a map is a column by itself, and its keys are strings: map<string, double>")
    return {"type": "object", "additionalProperties": _node(value)}
