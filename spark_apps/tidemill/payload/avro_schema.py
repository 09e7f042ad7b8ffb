"""An Avro schema as the columns that its records become.

| Avro                                                     | column                              |
|----------------------------------------------------------|-------------------------------------|
| `boolean`, `int`, `long`, `float`, `double`              | boolean, int32, int64, float32, -64 |
| `string`, `enum`, `string` with `uuid`                   | string                              |
| `bytes`, `fixed`                                         | binary                              |
| `int` with `date`                                        | date                                |
| `long` with `timestamp-millis` or `timestamp-micros`     | timestamp, microseconds, UTC        |
| `bytes` or `fixed` with `decimal` (38 digits at most)    | decimal                             |
| `record`; `array`; `map`                                 | struct; list; map of strings        |
| `["null", X]`, `[X, "null"]`                             | like X, may be null                 |

Any other union or logical type is refused, and so is a record inside of itself: no column could hold it. A
field of `float` or `double` with `"x-allow-non-finite": true` keeps NaN and infinity, which are rejected
otherwise (`json_schema.py` tells why).

Two things are refused because fastavro could fill columns with wrong values, without an error: `aliases`, by
which it reads a field whose logical type nobody compared, and any default of a type with bytes, fixed,
decimals or records, which it takes as the JSON that it is.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from fastavro.schema import SchemaParseException, expand_schema, parse_schema

from tidemill.errors import SpecError
from tidemill.payload.decimals import MAX_DIGITS
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text
from tidemill.payload.timestamps import INSTANT

MILLISECONDS = pa.timestamp("ms", tz="UTC")

_ALLOW_NON_FINITE = "x-allow-non-finite"

# Avro's own rule, which fastavro does not check.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PRIMITIVE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): MILLISECONDS,
    ("long", "timestamp-micros"): INSTANT,
    ("string", "uuid"): pa.string(),
}
_UNREADABLE = (SchemaParseException, ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True)
class AvroSchema:
    """One Avro schema.

    Args:
        name: File name, for messages.
        expanded: The document with each named type where it is used.
        parsed: What fastavro reads with: without logical types, which are applied to whole columns.
        wire: The columns, with timestamps in the unit they are written in.
        non_finite: Numbers that may be NaN or infinite.
    """

    name: str
    expanded: Mapping[str, Any]
    parsed: Mapping[str, Any]
    wire: pa.Schema
    non_finite: frozenset[Path]


def load_avro_schema(document: dict[str, Any], name: str) -> AvroSchema:
    """Build the schema of a file.

    Raises:
        SpecError: TIDE-SPEC-061 if it is no Avro schema of a record; 062 for a type that no column can hold,
            for aliases, and for a default that would be read wrongly; 024 for a field's name.
    """
    try:
        expanded: Any = expand_schema(copy.deepcopy(document))
        parsed: Any = parse_schema(_without_logical_types(document))
        if not isinstance(expanded, dict) or expanded.get("type") != "record":
            raise ValueError("it is no record")
    except _UNREADABLE as error:
        raise SpecError(
            "TIDE-SPEC-061",
            "The file is not an Avro schema of a record.",
            facts={"schema": name, "reason": f"{type(error).__name__}: {error}"[:300]},
            fix='write {"type": "record", "name": …, "fields": […]}',
        ) from error
    reader = _Reader(name)
    reader.refuse_aliases(expanded, ())
    wire = pa.schema(list(reader.fields(expanded, ())))
    return AvroSchema(name, expanded, parsed, wire, frozenset(reader.non_finite))


def plain_union(declared: Any) -> tuple[Any, bool]:
    """The type that is not null, and whether null is allowed; a union of several types stays one."""
    while isinstance(declared, Mapping) and isinstance(declared.get("type"), Mapping | list):
        declared = declared["type"]
    if not isinstance(declared, list):
        return declared, False
    others = [part for part in declared if part != "null"]
    chosen = plain_union(others[0])[0] if len(others) == 1 else others
    return chosen, len(others) < len(declared)


def kind_of(declared: Any) -> str:
    """The name of a type that is no union."""
    return str(declared.get("type") if isinstance(declared, Mapping) else declared)


def logical_of(declared: Any) -> str | None:
    """Its logical type."""
    return declared.get("logicalType") if isinstance(declared, Mapping) else None


def _has_aliases(declared: Any) -> bool:
    """Of its own, or of a type that it only wraps; fields and items are types of their own."""
    if isinstance(declared, list):
        return any(_has_aliases(part) for part in declared)
    return isinstance(declared, Mapping) and ("aliases" in declared or _has_aliases(declared.get("type")))


def _misreads_default(column: pa.DataType) -> bool:
    """Whether fastavro's reading of a default, which is JSON, is no value of the column."""
    if pa.types.is_map(column):
        return _misreads_default(column.item_type)
    if pa.types.is_list(column):
        return _misreads_default(column.value_type)
    return bool(pa.types.is_struct(column) or pa.types.is_binary(column) or pa.types.is_decimal(column))


def _without_logical_types(document: Any) -> Any:
    if isinstance(document, Mapping):
        kept = {key: _without_logical_types(part) for key, part in document.items() if key != "logicalType"}
        return kept if "name" in kept or set(kept) != {"type"} else kept["type"]
    return [_without_logical_types(part) for part in document] if isinstance(document, list) else document


class _Reader:
    """Walks one expanded document."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.non_finite: set[Path] = set()

    def fields(self, record: Mapping[str, Any], path: Path) -> list[pa.Field]:
        """Columns of a record's fields."""
        fields = record.get("fields")
        if not isinstance(fields, list) or not fields:
            raise self._unsupported(path, "a record without fields")
        seen: dict[str, str] = {}
        for field in fields:
            name = str(field["name"])
            twin = seen.setdefault(name.lower(), name)
            if twin != name or not _NAME.fullmatch(name):
                raise SpecError(
                    "TIDE-SPEC-024",
                    "A field's name cannot name a column, or differs from another's only by case.",
                    facts={"schema": self.name, "at": path_text((*path, name)), "other": twin},
                    fix="use letters, digits and underscores, and one spelling",
                )
        return [self._field(field, (*path, field["name"])) for field in fields]

    def _field(self, field: Mapping[str, Any], path: Path) -> pa.Field:
        self.refuse_aliases(field, path)
        column = self._type(field["type"], path, bool(field.get(_ALLOW_NON_FINITE)))
        if field.get("default") is not None and _misreads_default(column):
            raise SpecError(
                "TIDE-SPEC-062",
                "A default of bytes, fixed, decimals or records can be read as another value.",
                facts={"schema": self.name, "at": path_text(path), "key": "default"},
                fix="leave the default out where every writer's schema has the field; elsewhere leave the "
                "field out, or write it as a type that may have a default, like a string or a long",
            )
        return pa.field(field["name"], column)

    def refuse_aliases(self, declared: Any, path: Path) -> None:
        """Refuse other names of a field or type."""
        if _has_aliases(declared):
            raise SpecError(
                "TIDE-SPEC-062",
                "Aliases are refused: a field that is read by another name could be of another logical type.",
                facts={"schema": self.name, "at": path_text(path) or "the top", "key": "aliases"},
                fix="leave `aliases` out and keep the names that records are written with; the transform can "
                "rename columns",
            )

    def _type(self, declared: Any, path: Path, non_finite: bool) -> pa.DataType:
        self.refuse_aliases(declared, path)
        declared, _ = plain_union(declared)
        if isinstance(declared, list):
            raise self._unsupported(path, "a union of several types")
        kind, logical = kind_of(declared), logical_of(declared)
        if kind == "record":
            return pa.struct(self.fields(declared, path))
        if kind == "array":
            return pa.list_(self._type(declared["items"], (*path, EACH_ITEM), non_finite))
        if kind == "map":
            return pa.map_(pa.string(), self._type(declared["values"], (*path, EACH_ITEM), non_finite))
        if non_finite and kind in ("float", "double"):
            self.non_finite.add(path)
        return self._plain(declared, kind, logical, path)

    def _plain(self, declared: Any, kind: str, logical: str | None, path: Path) -> pa.DataType:
        if logical == "decimal" and kind in ("bytes", "fixed"):
            digits, scale = declared.get("precision"), declared.get("scale", 0)
            if not isinstance(digits, int) or not 0 < digits <= MAX_DIGITS or not 0 <= scale <= digits:
                raise self._unsupported(path, f"decimal with the precision {digits} and the scale {scale}")
            return pa.decimal128(digits, scale)
        if logical is not None:
            if (kind, logical) not in _LOGICAL:
                raise self._unsupported(path, f"{kind} with the logical type {logical}")
            return _LOGICAL[kind, logical]
        if kind == "fixed" and isinstance(declared.get("size"), int) and declared["size"] > 0:
            return pa.binary()
        if kind == "enum" and isinstance(declared.get("symbols"), list) and declared["symbols"]:
            return pa.string()
        if kind not in _PRIMITIVE:
            raise self._unsupported(path, kind)
        return _PRIMITIVE[kind]

    def _unsupported(self, path: Path, found: str) -> SpecError:
        return SpecError(
            "TIDE-SPEC-062",
            "This Avro type cannot be a column.",
            facts={"schema": self.name, "at": path_text(path) or "the top", "type": found},
            fix="use the types of conf/README.md; without its logical type a number or text is read as it is",
        )
