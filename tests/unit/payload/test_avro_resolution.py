"""A record of one Avro schema read as another's, by the rules of the specification."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.avro_schemas import field, logical, record
from tests.unit.payload.test_avro_decoder import decoder, encoded, framed, outcome
from tidemill.errors import SpecError
from tidemill.payload.avro_skipping import MAX_LEVELS

# Types that fastavro writes without a logical type, so that a test names the number or bytes.
MILLIS = logical("long", "timestamp-millis")
MICROS = logical("long", "timestamp-micros")
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = record(field("x", "int"), name="Inner")
NODE = record(field("v", "int"), field("next", ["null", "Node"]), name="Node")


def decimal(kind: Any, digits: int, scale: int) -> dict[str, Any]:
    named = kind if isinstance(kind, dict) else {"type": kind}
    return {**named, "logicalType": "decimal", "precision": digits, "scale": scale}


def without_logical_types(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {key: without_logical_types(part) for key, part in kind.items() if key != "logicalType"}
    return [without_logical_types(part) for part in kind] if isinstance(kind, list) else kind


def read(writer: dict[str, Any], reader: dict[str, Any], **values: Any) -> Any:
    """Return the row, or the reason why there is none."""
    written = encoded(without_logical_types(writer), **values)
    return outcome(decoder(reader, {1: writer}), framed(1, written))


@pytest.mark.parametrize(
    ("writer", "reader", "value", "column"),
    [
        ("int", "long", -5, -5),
        ("int", "float", 5, 5.0),
        ("long", "double", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("bytes", "string", b"\xff", "malformed_avro"),
        ("int", ["null", "long"], 7, 7),
        (["string", "null"], ["null", "string"], "x", "x"),
        (["null", "int"], ["long", "null"], None, None),
        (["null", "int"], "int", 3, 3),
        (["null", "int"], "int", None, "unreadable_value"),
        (["null", "int", "string"], ["null", "long"], 3, 3),
        (["null", "int", "string"], ["null", "long"], "x", "unreadable_value"),
        (["null", "int", "string"], ["null", "string"], "x", "x"),
        (["int", "float"], "double", 0.5, 0.5),
        (["string", "bytes"], "bytes", "x", b"x"),
        ("null", ["null", "string"], None, None),
        ({"type": "array", "items": ["null", "int"]}, {"type": "array", "items": ["null", "long"]}, [1], [1]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"k": 1}, [("k", 1.0)]),
        (ENUM, {**ENUM, "symbols": ["A", "X"], "default": "X"}, "C", "X"),
        (ENUM, {**ENUM, "symbols": ["A", "X"], "default": "X"}, "A", "A"),
        (ENUM, {**ENUM, "symbols": ["A", "X"]}, "C", "unreadable_value"),
        ({**ENUM, "default": "A"}, {**ENUM, "symbols": ["B"]}, "C", "unreadable_value"),
    ],
)
def test_a_value_is_read_as_another_type(writer: Any, reader: Any, value: Any, column: Any) -> None:
    row = read(record(field("v", writer)), record(field("v", reader)), v=value)
    assert row == (column if column in ("malformed_avro", "unreadable_value") else {"v": column})


@pytest.mark.parametrize(
    ("writer", "reader", "value", "column"),
    [
        # A type without a logical type reads the number or text of any.
        (MILLIS, "long", 5, 5),
        (logical("int", "time-millis"), "int", 5, 5),
        (logical("long", "timestamp-nanos"), "long", 5, 5),
        (logical("string", "uuid"), "string", "a", "a"),
        ("string", logical("string", "uuid"), "a", "a"),
        (logical("string", "my-own"), "string", "a", "a"),
        (decimal("bytes", 9, 2), "bytes", b"\x01", b"\x01"),
        # An invalid logical type counts as none.
        (logical("string", "timestamp-millis"), "string", "a", "a"),
        (MILLIS, ["null", MILLIS], 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (["null", "string", MICROS], ["null", MICROS], 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (["int", MILLIS], MILLIS, 0, "unreadable_value"),
        (["string", decimal("bytes", 9, 2)], decimal("bytes", 9, 2), "a", "unreadable_value"),
        (decimal("bytes", 9, 2), decimal("bytes", 12, 2), b"\x01\x00", Decimal("2.56")),
        (decimal(FIXED, 4, 2), decimal("bytes", 4, 2), b"\x01\x00", Decimal("2.56")),
        (decimal("bytes", 4, 2), decimal(FIXED, 4, 2), b"\x01", Decimal("0.01")),
        ([decimal(FIXED, 4, 2), decimal("bytes", 3, 2)], decimal("bytes", 4, 2), b"\x01", Decimal("0.01")),
    ],
)
def test_logical_types_are_compared(writer: Any, reader: Any, value: Any, column: Any) -> None:
    row = read(record(field("v", writer)), record(field("v", reader)), v=value)
    assert row == (column if column == "unreadable_value" else {"v": column})


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("long", MILLIS, "no logical type was written, timestamp-millis is declared"),
        (MILLIS, MICROS, "timestamp-millis was written, timestamp-micros is declared"),
        (
            logical("int", "timestamp-millis"),
            MILLIS,
            "no logical type was written, timestamp-millis is declared",
        ),
        (
            decimal("bytes", 9, 2),
            decimal("bytes", 9, 3),
            "decimal(9, 2) was written, decimal(9, 3) is declared",
        ),
        (
            decimal("bytes", 9, 2),
            decimal("bytes", 8, 2),
            "decimal(9, 2) was written, decimal(8, 2) is declared",
        ),
        ("bytes", decimal("bytes", 9, 2), "no logical type was written, decimal(9, 2) is declared"),
        ("string", decimal("bytes", 9, 2), "no logical type was written, decimal(9, 2) is declared"),
        (FIXED, "bytes", "fixed was written, bytes is declared"),
        (FIXED, {**FIXED, "size": 3}, "2 bytes were written, 3 are declared"),
        (FIXED, {**FIXED, "name": "G"}, "the fixed shop.F is named shop.G"),
        (ENUM, {**ENUM, "name": "G"}, "the enum shop.E is named shop.G"),
        (ENUM, "string", "enum was written, string is declared"),
        ("double", "float", "double was written, float is declared"),
        ("long", "int", "long was written, int is declared"),
        (["string", "boolean"], "int", "string was written, int is declared"),
        ({"type": "array", "items": "string"}, {"type": "map", "values": "string"}, None),
    ],
)
def test_a_writer_of_another_type_is_refused(writer: Any, reader: Any, reason: str | None) -> None:
    with pytest.raises(SpecError) as refused:
        decoder(record(field("v", reader)), {1: record(field("v", writer))})
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-063", "v")
    assert reason is None or refused.value.facts["reason"] == reason


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (logical("int", "time-millis"), 5),
        (logical("long", "local-timestamp-micros"), 5),
        (logical("string", "my-own"), "a"),
        (decimal("bytes", 40, 2), b"\x01"),
        ({**FIXED, "size": 12, "logicalType": "duration"}, b"0" * 12),
        (["null", "string", "int"], "s"),
        (["null", INNER, ENUM, FIXED], {"x": 1}),
        (["null", NODE], {"v": 1, "next": {"v": 2, "next": None}}),
        (record(name="Nothing"), {}),
        ("null", None),
        (ENUM, "B"),
        ({"type": "map", "values": {"type": "array", "items": FIXED}}, {"k": [b"ab", b"cd"]}),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"aliases": ["old"], "default": "of another type"}])
def test_a_field_without_a_column_may_be_of_any_type(kind: Any, value: Any, keys: dict[str, Any]) -> None:
    others = field("a", "int"), field("A", "int"), field("z", "string")
    reader = record(field("z", "string"), field("a", "long"))
    written = encoded(without_logical_types(record(field("x", kind), *others)), a=1, x=value, A=2, z="end")
    by = decoder(reader, {1: record(field("x", kind, **keys), *others)})
    assert outcome(by, framed(1, written)) == {"z": "end", "a": 1}


def test_a_type_may_have_a_column_at_one_place_and_none_at_another() -> None:
    writer = record(field("x", ["null", NODE]), field("e", ENUM), field("n", "Node"), field("f", "E"))
    reader = record(field("f", ENUM), field("n", record(field("v", "long"), name="Node")))
    node = {"v": 2, "next": {"v": 3, "next": None}}
    assert read(writer, reader, x=node, e="A", n=node, f="C") == {"f": "C", "n": {"v": 2}}


@pytest.mark.parametrize(("levels", "result"), [(MAX_LEVELS, {"a": 1}), (MAX_LEVELS + 1, "malformed_avro")])
def test_a_record_inside_of_itself_is_skipped_down_to_a_depth(levels: int, result: Any) -> None:
    writer, reader = record(field("x", ["null", NODE]), field("a", "int")), record(field("a", "int"))
    nested = b"\x02\x00" * levels + b"\x00" + b"\x02"
    by = decoder(reader, {1: writer}, 10**6)
    assert outcome(by, framed(1, nested)) == result


def test_a_record_nested_without_end_does_not_end_the_process() -> None:
    writer, reader = record(field("x", ["null", NODE]), field("a", "int")), record(field("a", "int"))
    by = decoder(reader, {1: writer}, 10**6)
    assert outcome(by, framed(1, b"\x02\x00" * 400_000 + b"\x00\x02")) == "malformed_avro"


NAMESPACES = [("shop.v1", "shop.v2"), ("", "shop"), ("shop", "")]


@pytest.mark.parametrize(("old", "new"), NAMESPACES)
def test_names_are_compared_without_their_namespaces(old: str, new: str) -> None:
    def document(namespace: str) -> dict[str, Any]:
        inner = {**INNER, "namespace": namespace}
        listed = {"type": "array", "items": {**ENUM, "namespace": namespace}}
        fields = (
            field("i", inner),
            field("e", listed),
            field("f", ["null", {**FIXED, "namespace": namespace}]),
        )
        return {**record(*fields), "namespace": namespace}

    values = {"i": {"x": 1}, "e": ["C"], "f": b"ab"}
    assert read(document(old), document(new), **values) == values


def test_types_of_one_name_in_two_namespaces_are_two_types() -> None:
    first = {**record(field("v", "int"), name="T"), "namespace": "n1"}
    second = {**record(field("w", "string"), name="T"), "namespace": "n2"}
    writer = record(field("p", first), field("q", second), field("r", ["null", "n1.T", "n2.T"]))
    wider = {**record(field("v", "long"), name="T"), "namespace": "n3"}
    reader = record(field("q", second), field("p", wider))
    assert read(writer, reader, p={"v": 1}, q={"w": "s"}, r=None) == {"q": {"w": "s"}, "p": {"v": 1}}


def test_the_definition_of_a_type_may_move() -> None:
    writer = record(field("foo", INNER))
    reader = record(field("bar", ["null", INNER], default=None), field("foo", "Inner"))
    assert read(writer, reader, foo={"x": 1}) == {"bar": None, "foo": {"x": 1}}
    assert read(reader, writer, bar={"x": 2}, foo={"x": 1}) == {"foo": {"x": 1}}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (FIXED, "\u00ff\u0000", b"\xff\x00"),
        (decimal("bytes", 4, 2), "\u0001\u0000", Decimal("2.56")),
        (decimal(FIXED, 4, 2), "\u00ff\u00ff", Decimal("-0.01")),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["null", "bytes"], "\u00ff", b"\xff"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": ["null", FIXED]}, {"a": "ab", "b": None}, [("a", b"ab"), ("b", None)]),
        (
            record(field("x", "int", default=3), field("raw", "bytes"), name="In"),
            {"raw": "a"},
            {"x": 3, "raw": b"a"},
        ),
        ({"type": "array", "items": record(field("x", "int", default=3), name="In")}, [{}], [{"x": 3}]),
        ("double", 1, 1.0),
    ],
)
def test_a_default_of_any_type_fills_what_a_writer_does_not_have(kind: Any, default: Any, value: Any) -> None:
    writer = record(field("id", "int"))
    reader = record(field("v", kind, default=default), field("id", "int"))
    assert read(writer, reader, id=1) == {"v": value, "id": 1}
    inside, around = (
        record(field("id", "int"), name="In2"),
        record(field("v", kind, default=default), name="In2"),
    )
    assert read(record(field("i", inside)), record(field("i", around)), i={"id": 1}) == {"i": {"v": value}}


def test_aliases_name_what_writers_have_under_other_names() -> None:
    old = record(
        field("nr", "int"), field("at", MILLIS), field("part", INNER), field("kind", ENUM), name="Old"
    )
    inner = {**record(field("y", "int", aliases=["z", "x"]), name="Part"), "aliases": ["Inner"]}
    kind = {**ENUM, "name": "Kind", "aliases": ["other.E", "shop.E"]}
    fields = (
        field("id", "long", aliases=["nr"]),
        field("moment", MILLIS, aliases=["at"]),
        field("part", inner),
        field("kind", kind),
    )
    new = {**record(*fields), "aliases": ["Old"]}
    row = read(old, new, nr=1, at=0, part={"x": 2}, kind="B")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert row == {"id": 1, "moment": epoch, "part": {"y": 2}, "kind": "B"}
    # The field's own name comes before aliases, and one field of the writer is one column.
    both = record(field("nr", "int"), field("id", "int"))
    twice = record(field("id", "int", aliases=["nr"]), field("nr", "int", aliases=["id"]))
    assert read(both, twice, nr=1, id=2) == {"id": 2, "nr": 1}


def test_an_alias_hides_no_other_logical_type() -> None:
    with pytest.raises(SpecError) as refused:
        decoder(record(field("new", MICROS, aliases=["old"])), {1: record(field("old", MILLIS))})
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-063", "new")
    elsewhere = {**record(field("v", "int"), name="New"), "aliases": ["elsewhere.Order"]}
    with pytest.raises(SpecError) as refused:
        decoder(elsewhere, {1: record(field("v", "int"))})
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-063", "the top")


def test_an_array_of_nothing_is_no_schema_of_a_writer() -> None:
    """The length alone could keep a driver busy for ever."""
    for items in ("null", record(field("n", "null"), name="Nothing")):
        writer = record(field("a", "int"), field("x", {"type": "array", "items": items}))
        with pytest.raises(SpecError) as refused:
            decoder(record(field("a", "int")), {1: writer})
        assert (refused.value.error_id, refused.value.facts["schema"]) == ("TIDE-SPEC-061", "v1.avsc")
