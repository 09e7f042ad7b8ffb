"""Read records of one Avro schema as those of another, by Avro's rules of schema resolution.

These are the rules of the specification 1.12, section "Schema Resolution". Two more rules cover logical
types, which the specification leaves to implementations except for decimals:

- A date, a time or a decimal is read only from the same logical type; otherwise milliseconds would become
  microseconds. A type without a logical type reads the number or text of any type.
- A decimal may have more digits in the reader's schema, with the same scale. `bytes` and `fixed` of a decimal
  match each other.

fastavro resolves some schemas differently, because it knows neither logical types nor bytes as defaults. So
it gets a pair of schemas that are made for each other: matching types have the same generated name,
non-matching branches have a name that the reader lacks, and a field has the reader's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastavro import parse_schema

from tidemill.errors import SpecError
from tidemill.payload.avro_defaults import default_value
from tidemill.payload.avro_schema import AvroDocument, AvroSchema
from tidemill.payload.avro_skipping import SkippedTypes
from tidemill.payload.avro_types import AvroType, plain_union
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text

_PROMOTED: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
# Logical types that change the meaning of a number or text. `uuid` adds nothing to a text, and the others
# have no column.
_MEANINGS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"date"}),
    "long": frozenset({"timestamp-millis", "timestamp-micros"}),
}
# Holds a default until fastavro has parsed the schema, because fastavro would refuse bytes.
_FILL = "x-tidemill-default"

# Place and reason.
Problem = tuple[Path, str]
# The same bytes for fastavro, as the writer's type and the reader's type.
_Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Reading:
    """Schemas for fastavro.

    Args:
        writer: Schema of the bytes.
        reader: Schema of the columns; None if it is the same, which is read in half the time.
    """

    writer: Any
    reader: Any | None


def check_resolves(writer: AvroDocument, reader: AvroSchema) -> None:
    """Raise an error for a writer's schema whose records cannot become the reader's columns.

    A null, a symbol or a union branch that only the writer knows is checked in each record, which is then
    invalid.

    Raises:
        SpecError: TIDE-SPEC-063, with the place.
    """
    problem = next(resolution_problems(writer, reader), None)
    if problem is not None:
        path, reason = problem
        raise SpecError(
            "TIDE-SPEC-063",
            "Records of a writer's Avro schema cannot be read with the pipeline's schema.",
            facts={
                "schema": reader.document.name,
                "writer": writer.name,
                "at": path_text(path) or "the top",
                "reason": reason,
            },
            fix="give new fields a default, name what was renamed in `aliases` of the pipeline's schema, and "
            "keep types and logical types",
        )


def resolution_problems(writer: AvroDocument, reader: AvroSchema) -> Iterator[Problem]:
    """Yield why no record of a writer's schema can become the reader's columns."""
    yield from _resolved(writer, reader).problems


def single_record_problems(writer: AvroDocument, reader: AvroSchema) -> Iterator[Problem]:
    """Yield values that some records of a writer may have and the reader rejects."""
    yield from _resolved(writer, reader).refused


def reading_of(writer: AvroDocument, reader: AvroSchema) -> Reading:
    """Return the schemas that read the records of a resolvable writer."""
    resolver = _Resolver()
    pair = resolver.pair(writer.record, reader.document.record, ())
    if pair is None:
        raise AssertionError(f"{writer.name} was not checked")
    written, read = pair
    known: dict[str, Any] = {}
    for definition in resolver.skipped.definitions():
        parse_schema(definition, known)
    parsed = parse_schema(written, known)
    return Reading(parsed, None if written == read else _with_defaults(parse_schema(read)))


def _resolved(writer: AvroDocument, reader: AvroSchema) -> _Resolver:
    resolver = _Resolver()
    resolver.pair(writer.record, reader.document.record, ())
    return resolver


def _with_defaults(parsed: Any) -> Any:
    """Put the defaults where fastavro expects them."""
    if isinstance(parsed, list):
        for branch in parsed:
            _with_defaults(branch)
    elif isinstance(parsed, dict):
        for field in parsed.get("fields", ()):
            if _FILL in field:
                field["default"] = field.pop(_FILL)
            _with_defaults(field["type"])
        _with_defaults(parsed.get("items", parsed.get("values")))
    return parsed


class _Resolver:
    """Walks two schemas in parallel, to the depth of the reader's, which is finite."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.refused: list[Problem] = []
        self.skipped = SkippedTypes()
        self._names = (f"matched{number}" for number in itertools.count())

    def pair(self, writer: AvroType, reader: AvroType, path: Path) -> _Pair | None:
        """Return the pair of types, or None if the types do not match. The reason is added to `problems`."""
        if writer.kind == "union":
            return self._union(writer, reader, path)
        read, allows_null = plain_union(reader)
        if writer.kind == "null" and allows_null:
            return "null", "null"
        reason = "null was allowed" if writer.kind == "null" else _mismatch(writer, read)
        if reason is not None:
            self.problems.append((path, reason))
            return None
        if read.kind == "record":
            return self._record(writer, read, path)
        if writer.inner is not None and read.inner is not None:
            key = "items" if read.kind == "array" else "values"
            inner = self.pair(writer.inner, read.inner, (*path, EACH_ITEM))
            return inner and ({"type": read.kind, key: inner[0]}, {"type": read.kind, key: inner[1]})
        if read.kind == "enum":
            return self._enum(writer, read, path)
        if writer.kind == "fixed":
            fixed = {"type": "fixed", "name": next(self._names), "size": writer.size}
            return fixed, fixed
        # If one is bytes and the other is fixed, both are decimals.
        return writer.kind, "bytes" if read.kind == "fixed" else read.kind

    def _union(self, writer: AvroType, reader: AvroType, path: Path) -> _Pair | None:
        """Resolve each branch: a record is invalid only if its own branch does not match."""
        written: list[Any] = []
        read: list[Any] = []
        unmatched: list[Problem] = []
        for branch in writer.branches:
            problems, refused = len(self.problems), len(self.refused)
            pair = self.pair(branch, reader, path)
            if pair is None:
                unmatched += self.problems[problems:]
                del self.problems[problems:], self.refused[refused:]
                pair = {"type": "record", "name": next(self._names), "fields": []}, None
            written.append(pair[0])
            if pair[1] is not None and pair[1] not in read:
                read.append(pair[1])
        if read:
            self.refused += unmatched
            return written, read
        self.problems += unmatched
        return None

    def _record(self, writer: AvroType, reader: AvroType, path: Path) -> _Pair | None:
        names = {place: name for name, place in _written_places(writer, reader).items()}
        types = {field.name: field.type for field in reader.fields}
        # Longer than any name of the reader, which must not find these fields.
        ignored = "_" * (1 + max(map(len, types)))
        problems = len(self.problems)
        written, read = [], []
        for place, field in enumerate(writer.fields):
            if place not in names:
                written.append({"name": f"{ignored}{place}", "type": self.skipped.of(field.type)})
            elif pair := self.pair(field.type, types[names[place]], (*path, names[place])):
                written.append({"name": names[place], "type": pair[0]})
                read.append({"name": names[place], "type": pair[1]})
        for field in reader.fields:
            if field.name not in names.values():
                read += self._default(field, path)
        if len(self.problems) > problems:
            return None
        made = {"type": "record", "name": next(self._names)}
        return {**made, "fields": written}, {**made, "fields": read}

    def _default(self, field: Any, path: Path) -> list[dict[str, Any]]:
        if not field.has_default:
            self.problems.append(((*path, field.name), "it was not written, and has no default"))
            return []
        value = default_value(field.type, field.default)
        return [{"name": field.name, "type": "null", "default": None, _FILL: value}]

    def _enum(self, writer: AvroType, reader: AvroType, path: Path) -> _Pair:
        made = {"type": "enum", "name": next(self._names)}
        written = {**made, "symbols": list(writer.symbols)}
        gone = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if not gone:
            return written, written
        if reader.default is None:
            self.refused.append((path, f"symbols are gone: {', '.join(gone)}"))
            return written, {**made, "symbols": list(reader.symbols)}
        return written, {**made, "symbols": list(reader.symbols), "default": reader.default}


def _written_places(writer: AvroType, reader: AvroType) -> dict[str, int]:
    """Return the writer's field for each reader field; the field's own name comes before its aliases."""
    places = {field.name: place for place, field in enumerate(writer.fields)}
    found = {field.name: places.pop(field.name) for field in reader.fields if field.name in places}
    for field in reader.fields:
        former = next((alias for alias in field.aliases if alias in places), None)
        if field.name not in found and former is not None:
            found[field.name] = places.pop(former)
    return found


def _mismatch(writer: AvroType, reader: AvroType) -> str | None:
    """Return why two types, neither of which is a union, do not match."""
    if _is_decimal(writer) and _is_decimal(reader):
        fits = writer.scale == reader.scale and writer.precision <= reader.precision
        return None if fits else f"{_meaning(writer)} was written, {_meaning(reader)} is declared"
    if writer.kind != reader.kind and reader.kind not in _PROMOTED.get(writer.kind, ()):
        return f"{writer.kind} was written, {reader.kind} is declared"
    if _meaning(reader) not in (None, _meaning(writer)):
        return f"{_meaning(writer) or 'no logical type'} was written, {_meaning(reader)} is declared"
    if reader.name and not _has_name_of(writer, reader):
        return f"the {reader.kind} {writer.name} is named {reader.name}"
    if reader.kind == "fixed" and writer.size != reader.size:
        return f"{writer.size} bytes were written, {reader.size} are declared"
    return None


def _has_name_of(writer: AvroType, reader: AvroType) -> bool:
    """Return True if the names without their namespaces are the same, or an alias is the writer's name."""
    same = writer.name.rpartition(".")[2] == reader.name.rpartition(".")[2]
    return same or writer.name in reader.aliases


def _is_decimal(declared: AvroType) -> bool:
    """Return True for a valid decimal; an invalid one is read as if it had no logical type."""
    digits, scale = declared.precision, declared.scale
    if declared.logical != "decimal" or declared.kind not in ("bytes", "fixed"):
        return False
    return isinstance(digits, int) and isinstance(scale, int) and 0 <= scale <= digits and digits > 0


def _meaning(declared: AvroType) -> str | None:
    if _is_decimal(declared):
        return f"decimal({declared.precision}, {declared.scale})"
    return declared.logical if declared.logical in _MEANINGS.get(declared.kind, ()) else None
