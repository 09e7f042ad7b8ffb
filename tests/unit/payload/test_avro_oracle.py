"""Apache Avro's Python package checks schemas and reads records, and Tidemill must agree with it.

`ReaderWriterCompatibilityChecker` is the judge of schemas. `DatumReader` compares full names, does not read a
union as another type and knows no aliases of fields, so its values count where it has any.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import avro.errors
import avro.io
import avro.schema
import pyarrow as pa
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from fastavro import schemaless_writer
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidemill.payload.avro_decoder import AvroDecoder
from tidemill.payload.avro_resolution import resolution_problems, single_record_problems
from tidemill.payload.avro_schema import load_avro_document, load_avro_schema
from tidemill.payload.writers import NamedWriters

Draw = Callable[[st.SearchStrategy[Any]], Any]

PRIMITIVES = ("boolean", "int", "long", "float", "double", "string", "bytes")
SMALL = st.integers(-(2**20), 2**20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": SMALL,
    "long": SMALL,
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(-(2.0**20), 2.0**20, width=32),
    "string": st.text(max_size=3),
    "bytes": st.binary(max_size=3),
}
DEFAULTS = {
    "boolean": True,
    "int": 3,
    "long": 4,
    "float": 0.5,
    "double": 1.5,
    "string": "d",
    "bytes": "d",  # the package takes other characters for UTF-8, against the specification
    "null": None,
}
NAMES = st.sampled_from(["Kind", "Part"])
FIELDS = ("a", "b", "c", "d")


class Schemas:
    """Makes schemas that often match: one place of two schemas has the same few types and names."""

    def __init__(self, draw: Draw, is_reader: bool) -> None:
        self.draw = draw
        self.is_reader = is_reader

    def record(self, place: str, name: str | None = None) -> dict[str, Any]:
        names = self.draw(st.permutations(FIELDS))[: self.draw(st.integers(1, len(FIELDS)))]
        named = self._named("record", place, name)
        return {**named, "fields": [self._field(one, f"{place}.{one}") for one in names]}

    def _field(self, name: str, place: str) -> dict[str, Any]:
        kind = self._type(place, 1)
        found = {"name": name, "type": kind}
        if self.is_reader and self.draw(st.booleans()):
            found["aliases"] = [f"old_{name}"]
        elif not self.is_reader and self.draw(st.integers(0, 4)) == 0:
            found["name"] = f"old_{name}"
        first = kind[0] if isinstance(kind, list) else kind
        if isinstance(first, str) and self.draw(st.booleans()):
            found["default"] = DEFAULTS[first]
        return found

    def _named(self, kind: str, place: str, name: str | None = None) -> dict[str, Any]:
        namespace = place if self.is_reader or self.draw(st.booleans()) else f"other.{place}"
        found = {"type": kind, "name": name or self.draw(NAMES), "namespace": namespace}
        if self.is_reader and self.draw(st.booleans()):
            found["aliases"] = [f"other.{place}.Part"]
        return found

    def _type(self, place: str, depth: int) -> Any:
        kinds = ["plain"] * 4 + ["nullable", "enum", "fixed"] + ["array", "map", "record"] * (depth < 3)
        kind = self.draw(st.sampled_from(kinds if self.is_reader else [*kinds, "union", "union"]))
        if kind == "nullable":
            other = self._inner(place, depth)
            return ["null", other] if self.draw(st.booleans()) else [other, "null"]
        return self._union(place, depth) if kind == "union" else self._plain(kind, place, depth)

    def _inner(self, place: str, depth: int) -> Any:
        kinds = ["plain"] * 3 + ["enum", "fixed"] + ["array", "map", "record"] * (depth < 3)
        return self._plain(self.draw(st.sampled_from(kinds)), place, depth)

    def _plain(self, kind: str, place: str, depth: int) -> Any:
        if kind == "plain":
            return self.draw(st.sampled_from(PRIMITIVES))
        if kind == "enum":
            symbols = self.draw(st.permutations(["A", "B", "C"]))[: self.draw(st.integers(1, 3))]
            found = {**self._named("enum", place), "symbols": symbols}
            return {**found, "default": symbols[0]} if self.draw(st.booleans()) else found
        if kind == "fixed":
            return {**self._named("fixed", place), "size": self.draw(st.integers(1, 2))}
        if kind == "record":
            return self.record(place) if depth < 2 else self._small_record(place)
        key = "items" if kind == "array" else "values"
        return {"type": kind, key: self._type(f"{place}.{key}", depth + 1)}

    def _small_record(self, place: str) -> dict[str, Any]:
        return {**self._named("record", place), "fields": [self._field("a", f"{place}.a")]}

    def _union(self, place: str, depth: int) -> list[Any]:
        branches: dict[str, Any] = {}
        for number in range(self.draw(st.integers(1, 4))):
            found = self.draw(st.sampled_from(["null", None, None]))
            found = found or self._inner(f"{place}.u{number}" if number else place, depth)
            named = isinstance(found, dict) and found.get("namespace")
            kind = found if isinstance(found, str) else found["type"]
            branches[f"{named}.{found['name']}" if named else kind] = found
        return list(branches.values())


def encoded(declared: Any, draw: Draw) -> bytes:
    """Return an encoded value of the type; the branch of a union is also drawn."""
    if isinstance(declared, list):
        place = draw(st.integers(0, len(declared) - 1))
        return number(place) + encoded(declared[place], draw)
    kind = declared if isinstance(declared, str) else declared["type"]
    if kind == "record":
        return b"".join(encoded(field["type"], draw) for field in declared["fields"])
    if kind in ("array", "map"):
        count = draw(st.integers(0, 2))
        keys = ["k", "l"][:count] if kind == "map" else [None] * count
        inner = declared["items" if kind == "array" else "values"]
        items = [(plain("string", key) if key else b"") + encoded(inner, draw) for key in keys]
        return (number(count) + b"".join(items) if count else b"") + b"\x00"
    if kind == "enum":
        return number(draw(st.integers(0, len(declared["symbols"]) - 1)))
    if kind == "fixed":
        return bytes(draw(st.binary(min_size=declared["size"], max_size=declared["size"])))
    return plain(kind, draw(VALUES[kind]))


def number(value: int) -> bytes:
    return plain("long", value)


def plain(kind: str, value: Any) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, kind, value)  # type: ignore[arg-type]  # a primitive is a schema
    return stream.getvalue()


def read_by_avro(writer: Any, reader: Any, written: bytes) -> Any:
    """Return the record, or None where Apache Avro's Python reader has none."""
    if '"old_' in str(writer):
        return None
    try:
        datum = avro.io.DatumReader(writer, reader).read(avro.io.BinaryDecoder(io.BytesIO(written)))
    except avro.errors.AvroException:
        return None
    assert isinstance(datum, dict)
    return datum


def is_same(ours: Any, theirs: Any) -> bool:
    """True if two values are equal; Arrow's maps are lists of pairs."""
    if isinstance(theirs, dict):
        values = dict(ours)
        return values.keys() == theirs.keys() and all(is_same(values[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    return bool(ours == theirs)


def outcome(writer: dict[str, Any], reader: dict[str, Any], written: bytes) -> Any:
    schema = load_avro_schema(reader, "reader")
    writers = NamedWriters({1: load_avro_document(writer, "writer")}, lambda _: None)
    framed = pa.array([b"\x00\x00\x00\x00\x01" + written], pa.binary())
    decoded = AvroDecoder(schema, writers, 10**6).decode(framed)
    return decoded.rows.to_pylist()[0] if len(decoded.rows) else decoded.reasons[0]


@st.composite
def evolutions(draw: Draw) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return a writer's schema, a reader's, and a record of the writer."""
    reader = Schemas(draw, is_reader=True).record("shop", "Order")
    writer = Schemas(draw, is_reader=False).record("shop", "Order")
    if draw(st.integers(0, 4)):
        # Most fields stay the same or change a little, as in the evolution of a real schema.
        kept = [evolved(one, draw) for one in reader["fields"] if draw(st.integers(0, 7))]
        names = {name for one in reader["fields"] for name in (one["name"], f"old_{one['name']}")}
        kept += [one for one in writer["fields"] if one["name"] not in names]
        writer = {**writer, "name": "Order", "namespace": "shop", "fields": draw(st.permutations(kept))}
    return writer, reader, encoded(writer, draw)


NARROWER = {"long": ["int"], "float": ["int", "long"], "double": ["int", "long", "float"]}


def evolved(field: dict[str, Any], draw: Draw) -> dict[str, Any]:
    """Return a field of the reader as an older or newer writer has it."""
    kind = field["type"]
    if isinstance(kind, str) and kind in NARROWER and draw(st.booleans()):
        kind = draw(st.sampled_from(NARROWER[kind]))
    elif isinstance(kind, list) and draw(st.booleans()):
        kind = [*kind, "boolean"] if "boolean" not in kind else kind[::-1]
    elif not isinstance(kind, list) and kind != "null" and draw(st.integers(0, 4)) == 0:
        kind = ["null", kind]
    return {"name": field["name"], "type": kind}


@pytest.mark.parametrize("examples", [300, pytest.param(5000, marks=pytest.mark.soak)])
def test_ours_agrees_with_apache_avro(examples: int) -> None:
    @settings(max_examples=examples, database=None)
    @given(evolutions())
    def agree(evolution: tuple[dict[str, Any], dict[str, Any], bytes]) -> None:
        agrees(*evolution)

    agree()


def agrees(writer: dict[str, Any], reader: dict[str, Any], written: bytes) -> None:
    try:
        theirs = [avro.schema.parse(json.dumps(schema)) for schema in (writer, reader)]
    except avro.errors.SchemaParseException:
        # A kept field of the reader has a type that the writer also defines.
        assume(False)
    judged = ReaderWriterCompatibilityChecker().get_compatibility(reader=theirs[1], writer=theirs[0])
    pair = load_avro_document(writer, "writer"), load_avro_schema(reader, "reader")
    problems, refused = list(resolution_problems(*pair)), list(single_record_problems(*pair))
    assert (judged.compatibility is SchemaCompatibilityType.compatible) == (not problems and not refused)
    if problems:
        assert read_by_avro(*theirs, written) is None
        return
    ours, expected = outcome(writer, reader, written), read_by_avro(*theirs, written)
    if isinstance(ours, str):
        assert (ours, bool(refused), expected) == ("unreadable_value", True, None)
    elif expected is not None:
        assert is_same(ours, expected)
