"""Whether records of one Avro schema can be read as another's, by Avro's rules of schema resolution.

fastavro resolves each record and would find out only then; and it does not compare logical types, so that
milliseconds would be read as microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.errors import SpecError
from tidemill.payload.avro_schema import AvroSchema, kind_of, logical_of, plain_union
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text

_PROMOTED: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_INNER: Mapping[str, str] = {"array": "items", "map": "values"}

# Where, and why.
Problem = tuple[Path, str]


def check_resolves(writer: AvroSchema, reader: AvroSchema) -> None:
    """Refuse a writer's schema whose records cannot become the reader's columns.

    A null, or a symbol of an enum, that only the writer knows is found in each record: that one is invalid.

    Raises:
        SpecError: TIDE-SPEC-063, with the place.
    """
    problem = next(resolution_problems(writer, reader), None)
    if problem is not None:
        path, reason = problem
        raise SpecError(
            "TIDE-SPEC-063",
            "Records of a writer's Avro schema cannot be read as the pipeline's.",
            facts={
                "schema": reader.name,
                "writer": writer.name,
                "at": path_text(path) or "the top",
                "reason": reason,
            },
            fix="give new fields a default (not of bytes, fixed, decimals or records), and keep names, "
            "types and logical types of old ones",
        )


def resolution_problems(writer: AvroSchema, reader: AvroSchema) -> Iterator[Problem]:
    """Why no record of a writer's schema can become the reader's columns."""
    yield from _of_records(writer.expanded, reader.expanded, ())


def single_record_problems(writer: AvroSchema, reader: AvroSchema) -> Iterator[Problem]:
    """What some records of a writer may hold and the reader refuses: a null, a symbol of an enum."""
    yield from _of_values(writer.expanded, reader.expanded, ())


def _of_records(writer: Mapping[str, Any], reader: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    if writer["name"] != reader["name"]:
        yield path, f"the record {writer['name']} is named {reader['name']}"
        return
    written = {field["name"]: field["type"] for field in writer["fields"]}
    for field in reader["fields"]:
        here = (*path, field["name"])
        if field["name"] in written:
            yield from _of_types(written[field["name"]], field["type"], here)
        elif "default" not in field:
            yield here, "it was not written, and has no default"


def _of_types(writer: Any, reader: Any, path: Path) -> Iterator[Problem]:
    written, read = plain_union(writer)[0], plain_union(reader)[0]
    kinds = kind_of(written), kind_of(read)
    if kinds[0] != kinds[1] and kinds[1] not in _PROMOTED.get(kinds[0], ()):
        yield path, f"{kinds[0]} was written, {kinds[1]} is declared"
    elif _meaning(written) != _meaning(read):
        yield path, f"{_meaning(written)} was written, {_meaning(read)} is declared"
    elif kinds[1] == "record":
        yield from _of_records(written, read, path)
    elif kinds[1] in ("enum", "fixed") and written["name"] != read["name"]:
        yield path, f"the type {written['name']} is named {read['name']}"
    elif kinds[1] == "fixed" and written["size"] != read["size"]:
        yield path, f"{written['size']} bytes were written, {read['size']} are declared"
    elif (inner := _INNER.get(kinds[1])) is not None:
        yield from _of_types(written[inner], read[inner], (*path, EACH_ITEM))


def _of_values(writer: Any, reader: Any, path: Path) -> Iterator[Problem]:
    (written, had_null), (read, has_null) = plain_union(writer), plain_union(reader)
    if had_null and not has_null:
        yield path, "null was allowed"
    kind = kind_of(read)
    if kind_of(written) != kind:
        return
    if kind == "record":
        types = {field["name"]: field["type"] for field in written["fields"]}
        for field in read["fields"]:
            if field["name"] in types:
                yield from _of_values(types[field["name"]], field["type"], (*path, field["name"]))
    elif kind == "enum" and "default" not in read:
        gone = [symbol for symbol in written["symbols"] if symbol not in read["symbols"]]
        if gone:
            yield path, f"symbols are gone: {', '.join(gone)}"
    elif (inner := _INNER.get(kind)) is not None:
        yield from _of_values(written[inner], read[inner], (*path, EACH_ITEM))


def _meaning(declared: Any) -> str:
    """What its number or text means beside its type."""
    logical = logical_of(declared)
    if logical == "decimal":
        return f"decimal({declared.get('precision')}, {declared.get('scale', 0)})"
    return "no logical type" if logical is None else logical
