"""Whether records of one Avro schema can be read as another's, by Avro's rules of schema resolution.

fastavro resolves each record and would find out only then; and it does not compare logical types, so that
milliseconds would be read as microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def check_resolves(writer: AvroSchema, reader: AvroSchema) -> None:
    """Refuse a writer's schema whose records cannot become the reader's columns.

    A null, or a symbol of an enum, that only the writer knows is found in each record: that one is invalid.

    Raises:
        SpecError: TIDE-SPEC-063, with the place.
    """
    problem = _record_problem(writer.expanded, reader.expanded, ())
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


_Problem = tuple[Path, str]


def _record_problem(writer: Mapping[str, Any], reader: Mapping[str, Any], path: Path) -> _Problem | None:
    if writer["name"] != reader["name"]:
        return path, f"the record {writer['name']} is named {reader['name']}"
    written = {field["name"]: field["type"] for field in writer["fields"]}
    for field in reader["fields"]:
        here = (*path, field["name"])
        if field["name"] in written:
            problem = _problem(written[field["name"]], field["type"], here)
        else:
            problem = None if "default" in field else (here, "it was not written, and has no default")
        if problem is not None:
            return problem
    return None


def _problem(writer: Any, reader: Any, path: Path) -> _Problem | None:
    written, read = plain_union(writer)[0], plain_union(reader)[0]
    kinds = kind_of(written), kind_of(read)
    if kinds[0] != kinds[1] and kinds[1] not in _PROMOTED.get(kinds[0], ()):
        return path, f"{kinds[0]} was written, {kinds[1]} is declared"
    if _meaning(written) != _meaning(read):
        return path, f"{_meaning(written)} was written, {_meaning(read)} is declared"
    if kinds[1] == "record":
        return _record_problem(written, read, path)
    if kinds[1] in ("enum", "fixed") and written["name"] != read["name"]:
        return path, f"the type {written['name']} is named {read['name']}"
    if kinds[1] == "fixed" and written["size"] != read["size"]:
        return path, f"{written['size']} bytes were written, {read['size']} are declared"
    for inner in {"array": ("items",), "map": ("values",)}.get(kinds[1], ()):
        return _problem(written[inner], read[inner], (*path, EACH_ITEM))
    return None


def _meaning(declared: Any) -> str:
    """What its number or text means beside its type."""
    logical = logical_of(declared)
    if logical == "decimal":
        return f"decimal({declared.get('precision')}, {declared.get('scale', 0)})"
    return "no logical type" if logical is None else logical
