"""Convert an Avro schema to the columns of its records.

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

Any other union or logical type is refused, and so is a record inside of itself, because no column could store
it. This applies to the pipeline's own schema. A writer's schema may have any type where the pipeline's schema
has no field (`avro_resolution.py`).

A field of `float` or `double` with `"x-allow-non-finite": true` keeps NaN and infinity, which are rejected
otherwise (`json_schema.py` has the reason).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.errors import SpecError
from tidemill.payload.avro_defaults import default_value
from tidemill.payload.avro_types import AvroField, AvroType, parse_avro, plain_union
from tidemill.payload.decimals import MAX_DIGITS
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text
from tidemill.payload.timestamps import INSTANT

MILLISECONDS = pa.timestamp("ms", tz="UTC")

# Avro's rule for names.
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


@dataclass(frozen=True)
class AvroDocument:
    """An Avro schema of a record, such as a writer's.

    Args:
        name: File name, for error messages.
        record: Its type.
    """

    name: str
    record: AvroType


@dataclass(frozen=True)
class AvroSchema:
    """An Avro schema whose fields are columns.

    Args:
        document: The schema.
        wire: The columns, with timestamps in the unit in which they are written.
        non_finite: Numbers that may be NaN or infinite.
    """

    document: AvroDocument
    wire: pa.Schema
    non_finite: frozenset[Path]


def load_avro_document(document: Any, name: str) -> AvroDocument:
    """Return a writer's schema.

    Raises:
        SpecError: TIDE-SPEC-061, if it is not an Avro schema of a record.
    """
    try:
        record = parse_avro(document)
        if record.kind != "record":
            raise ValueError("it is not a record")
    except (ValueError, TypeError, RecursionError) as error:
        raise _no_schema(name, "the top", f"{type(error).__name__}: {error}"[:300]) from error
    return AvroDocument(name, record)


def load_avro_schema(document: Any, name: str) -> AvroSchema:
    """Return the schema of a pipeline.

    Raises:
        SpecError: TIDE-SPEC-061, if it is not an Avro schema of a record, or has a default of another type;
            062, for a type that no column can hold; 024, for a field's name.
    """
    return columns_of(load_avro_document(document, name))


def columns_of(document: AvroDocument) -> AvroSchema:
    """Return the columns of a schema.

    Raises:
        SpecError: See `load_avro_schema`.
    """
    columns = _Columns(document.name)
    wire = pa.schema(columns.of_record(document.record, ()))
    return AvroSchema(document, wire, frozenset(columns.non_finite))


class _Columns:
    """Walks one schema."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.non_finite: set[Path] = set()
        self._open: list[AvroType] = []

    def of_record(self, record: AvroType, path: Path) -> list[pa.Field]:
        """Return the columns of a record's fields."""
        if not record.fields:
            raise self._unsupported(path, "a record without fields")
        if record in self._open:
            raise self._unsupported(path, f"the record {record.name} inside of itself")
        self._check_names([field.name for field in record.fields], path)
        self._open.append(record)
        found = [self._field(field, (*path, field.name)) for field in record.fields]
        self._open.pop()
        return found

    def _check_names(self, names: list[str], path: Path) -> None:
        seen: dict[str, str] = {}
        for name in names:
            twin = seen.setdefault(name.lower(), name)
            if twin != name or not _NAME.fullmatch(name):
                raise SpecError(
                    "TIDE-SPEC-024",
                    "A field's name cannot name a column, or differs from another's only by case.",
                    facts={"schema": self.name, "at": path_text((*path, name)), "other": twin},
                    fix="use letters, digits and underscores, and one spelling",
                )

    def _field(self, field: AvroField, path: Path) -> pa.Field:
        column = self._type(field.type, path, field.non_finite)
        if field.has_default:
            try:
                default_value(field.type, field.default)
            except ValueError as error:
                raise _no_schema(self.name, path_text(path), f"the default is {error}") from error
        return pa.field(field.name, column)

    def _type(self, declared: AvroType, path: Path, non_finite: bool) -> pa.DataType:
        declared, _ = plain_union(declared)
        if declared.kind == "union":
            several = len(declared.branches) > 1
            raise self._unsupported(path, "a union of several types" if several else "null")
        if declared.kind == "record":
            return pa.struct(self.of_record(declared, path))
        if declared.inner is not None:
            inner = self._type(declared.inner, (*path, EACH_ITEM), non_finite)
            return pa.list_(inner) if declared.kind == "array" else pa.map_(pa.string(), inner)
        if non_finite and declared.kind in ("float", "double"):
            self.non_finite.add(path)
        return self._plain(declared, path)

    def _plain(self, declared: AvroType, path: Path) -> pa.DataType:
        kind, logical = declared.kind, declared.logical
        if logical == "decimal" and kind in ("bytes", "fixed"):
            digits, scale = declared.precision, declared.scale
            if not isinstance(digits, int) or not 0 < digits <= MAX_DIGITS or not 0 <= scale <= digits:
                raise self._unsupported(path, f"decimal with the precision {digits} and the scale {scale}")
            return pa.decimal128(digits, scale)
        if logical is not None:
            if (kind, logical) not in _LOGICAL:
                raise self._unsupported(path, f"{kind} with the logical type {logical}")
            return _LOGICAL[kind, logical]
        if kind == "fixed" and declared.size > 0:
            return pa.binary()
        if kind == "enum" and declared.symbols:
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


def _no_schema(name: str, place: str, reason: str) -> SpecError:
    return SpecError(
        "TIDE-SPEC-061",
        "The file is not an Avro schema of a record.",
        facts={"schema": name, "at": place, "reason": reason},
        fix='write {"type": "record", "name": …, "fields": […]}, with defaults of the types of their fields',
    )
