from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.protobuf_schemas import (
    PROTOC_MADE,
    descriptor_set,
    enum,
    made_by,
    message,
    order,
    schema,
)
from tidemill.errors import SpecError
from tidemill.payload.protobuf_decoder import ProtobufDecoder
from tidemill.payload.protobuf_resolution import check_resolves
from tidemill.payload.protobuf_schema import ProtobufSchema, load_protobuf_schema
from tidemill.payload.writers import NamedWriters

TYPES = (PROTOC_MADE / "types.desc").read_bytes()
ORDER = made_by(TYPES)
EDITION = (PROTOC_MADE / "edition.desc").read_bytes()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
# A record in which only `x` was written: proto2, with the declared defaults.
PLACE = {
    "floor": 7,
    "side": None,
    "back": "RIGHT",
    "label": "é",
    "room": None,
    "doors": [],
    "steps": [],
    "lit": True,
}


def decoder(
    declared: ProtobufSchema, writers: dict[int, ProtobufSchema] | None = None, limit: int = 1000
) -> ProtobufDecoder:
    known = None
    if writers is not None:
        known = NamedWriters(writers, lambda writer: check_resolves(writer, declared))
    return ProtobufDecoder(declared, known, limit)


def outcome(by: ProtobufDecoder, value: bytes | None) -> Any:
    """Return the row, or the reason."""
    decoded = by.decode(pa.array([value], pa.binary()))
    return decoded.rows.to_pylist()[0] if len(decoded.rows) else decoded.reasons[0]


def full_order() -> Any:
    found = ORDER(
        id=-(2**63), i32=-(2**31), u32=2**32 - 1, u64=2**64 - 1, s32=-(2**31), s64=-(2**63), f32=2**32 - 1
    )
    found.MergeFrom(ORDER(f64=2**64 - 1, sf32=-1, sf64=-(2**63), real=0.5, wide=1e300, open=True, name="é"))
    found.MergeFrom(ORDER(raw=b"\x00\xff", kind=-2, maybe=0, counts=[1, -1], tags=["a", ""], kinds=[0, 1]))
    found.place.MergeFrom(type(found.place)(x=1, floor=0, side=3, lit=False, label="", doors=[1], steps=[2]))
    found.place.room.key = "k"
    found.route.add(x=2)
    found.sizes["a"], found.flags[True], found.places[-3].x, found.cash = 1.5, 1, 4, 0
    found.at.FromJsonString("2026-01-01T12:00:00.123456789Z")
    found.took.FromNanoseconds(-1_500_000_001)
    found.count.value, found.large.value, found.sure.value = 0, 2**64 - 1, False
    found.visits.add(seconds=-62_135_596_800)
    found.dates["b"].seconds = 253_402_300_799
    return found


def test_every_type_becomes_its_column() -> None:
    """The records are written by the runtime with the schema itself, which protoc compiled."""
    by = decoder(load_protobuf_schema(TYPES, "shop.Order", "types.desc"))
    kinds = {column.name: str(column.type) for column in by.columns}
    assert (kinds["i32"], kinds["u32"], kinds["f32"], kinds["u64"]) == (
        "int32",
        "int64",
        "int64",
        "decimal128(20, 0)",
    )
    assert (kinds["at"], kinds["took"]) == ("timestamp[us, tz=UTC]", "decimal128(21, 9)")
    assert (kinds["kinds"], kinds["count"]) == ("list<item: string>", "int64")
    assert kinds["flags"] == "map<bool, string>"
    row = outcome(by, full_order().SerializeToString())
    assert row == {
        "id": -(2**63),
        "i32": -(2**31),
        "u32": 2**32 - 1,
        "u64": Decimal(2**64 - 1),
        "s32": -(2**31),
        "s64": -(2**63),
        "f32": 2**32 - 1,
        "f64": Decimal(2**64 - 1),
        "sf32": -1,
        "sf64": -(2**63),
        "real": 0.5,
        "wide": 1e300,
        "open": True,
        "name": "é",
        "raw": b"\x00\xff",
        "kind": "OLD",
        "maybe": 0,
        "maybe_kind": None,
        "place": {
            **PLACE,
            "x": 1.0,
            "floor": 0,
            "side": "LEFT",
            "label": "",
            "room": {"key": "k"},
            "doors": [1],
            "steps": [2],
            "lit": False,
        },
        "route": [{**PLACE, "x": 2.0}],
        "counts": [1, -1],
        "tags": ["a", ""],
        "kinds": ["UNKNOWN", "NEW"],
        "sizes": [("a", 1.5)],
        "places": [(-3, {**PLACE, "x": 4.0})],
        "flags": [(True, "NEW")],
        "card": None,
        "cash": 0,
        "at_counter": None,
        "at": NOON.replace(microsecond=123456),
        "took": Decimal("-1.500000001"),
        "count": 0,
        "note": None,
        "visits": [datetime(1, 1, 1, tzinfo=UTC)],
        "dates": [("b", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))],
        "large": Decimal(2**64 - 1),
        "sure": False,
    }
    assert by.decode(pa.array([], pa.binary())).rows.schema == by.columns


def test_what_was_not_written_is_null_with_presence_and_zero_without() -> None:
    by = decoder(load_protobuf_schema(TYPES, "shop.Order", "types.desc"))
    row = outcome(by, b"")
    empty = {name for name, value in row.items() if value == []}
    assert empty == {"route", "counts", "tags", "kinds", "sizes", "places", "flags", "visits", "dates"}
    assert {name for name, value in row.items() if value is None} == {
        *("maybe", "maybe_kind", "place", "card", "cash", "at_counter", "at", "took"),
        *("count", "note", "large", "sure"),
    }
    assert (row["id"], row["u64"], row["open"], row["name"], row["kind"]) == (0, 0, False, "", "UNKNOWN")


def test_a_schema_of_an_edition_says_for_each_field_what_counts() -> None:
    by = decoder(load_protobuf_schema(EDITION, "shop.Event", "edition.desc"))
    event = made_by(EDITION, "shop.Event")(id="a", state=2)
    event.inner.a = 4
    row = {"id": "a", "zero": 0, "explicit": None, "inner": {"a": 4}, "state": "OFF"}
    assert outcome(by, event.SerializeToString()) == row
    assert outcome(by, b"\x10\x05") == "missing_required:id"
    # A closed enum, whose unknown numbers the runtime leaves out.
    assert outcome(by, b"\x0a\x01a\x28\x03") == "unknown_enum_number:state"


SIMPLE = order("int32 id = 1", "string name = 2", "double size = 3")
GOOD = made_by(descriptor_set(message("Order", "int32 id = 1", "string name = 2", "double size = 3")))(
    id=1, name="mill", size=2.5
).SerializeToString()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"\x08\x01" * 501, "oversized"),
        *((GOOD[:length], "malformed_protobuf") for length in (1, 3, 4, 7, 9, len(GOOD) - 1)),
        (GOOD + b"\x00", "malformed_protobuf"),
        (GOOD + b"\x0c", "malformed_protobuf"),
        (GOOD + b"\x7b", "malformed_protobuf"),
        (b"\x08" + b"\xff" * 11, "malformed_protobuf"),
        (b"\x12\xff\xff\xff\xff\x0f", "malformed_protobuf"),
        (b"not protobuf", "malformed_protobuf"),
        (b"\x12\x01\xff", "invalid_utf8:name"),
        (b"\x0a\x01a", "wrong_wire_type:id"),
        (b"\x10\x01", "wrong_wire_type:name"),
        (b"\x08\x80\x80\x80\x80\x10", "out_of_range:id"),
        (b"\x19" + b"\x00" * 6 + b"\xf8\x7f", "not_finite:size"),
        # The first reason is by the order of the fields, not of the bytes.
        (b"\x19" + b"\x00" * 6 + b"\xf8\x7f" + b"\x12\x01\xff", "invalid_utf8:name"),
    ],
)
def test_what_is_no_such_record_has_a_reason(value: bytes | None, reason: str) -> None:
    decoded = decoder(SIMPLE).decode(pa.array([GOOD, value, GOOD], pa.binary()))
    assert (decoded.kept.to_pylist(), decoded.rejected.to_pylist()) == ([0, 2], [1])
    assert decoded.rows.to_pylist() == [{"id": 1, "name": "mill", "size": 2.5}] * 2
    assert decoded.reasons == [reason]


KIND = enum("Kind", NEW=0, OLD=5)
SIDE = enum("Side", LEFT=3)


@pytest.mark.parametrize(
    ("line", "written", "reason"),
    [
        ("int32 v = 1", b"\x08\xff\xff\xff\xff\x0f", "out_of_range:v"),
        ("uint32 v = 1", b"\x08\x80\x80\x80\x80\x10", "out_of_range:v"),
        ("sint32 v = 1", b"\x08\x80\x80\x80\x80\x10", "out_of_range:v"),
        ("bool v = 1", b"\x08\x02", "out_of_range:v"),
        ("repeated int32 v = 1", b"\x0a\x06\x01\x80\x80\x80\x80\x10", "out_of_range:v[]"),
        ("Kind v = 1", b"\x08\x01", "unknown_enum_number:v"),
        ("optional Kind v = 1", b"\x08\x01", "unknown_enum_number:v"),
        ("repeated Kind v = 1", b"\x0a\x02\x05\x06", "unknown_enum_number:v[]"),
        ("map<string, Kind> v = 1", b"\x0a\x05\x0a\x01a\x10\x01", "unknown_enum_number:v[]"),
        ("map<string, int32> v = 1", b"\x0a\x03\x0a\x01\xff", "invalid_utf8:v[]"),
        ("map<int32, bytes> v = 1", b"\x0a\x06\x08\x80\x80\x80\x80\x10", "out_of_range:v[]"),
        ("map<string, string> v = 1", b"\x0a\x02\x10\x01", "wrong_wire_type:v[].value"),
        ("map<string, float> v = 1", b"\x0a\x05\x15\x00\x00\x80\x7f", "not_finite:v[]"),
        ("repeated string v = 1", b"\x0a\x01a\x0a\x01\xff", "invalid_utf8:v[]"),
        ("Inner v = 1", b"\x0a\x02\x08\x01", "wrong_wire_type:v.name"),
        ("repeated Inner v = 1", b"\x0a\x00\x0a\x03\x0a\x01\xff", "invalid_utf8:v[].name"),
        ("Inner v = 1", b"\x0a\x02\x0a\x01", "malformed_protobuf"),
    ],
)
def test_a_value_that_no_column_holds_has_a_reason_at_any_depth(
    line: str, written: bytes, reason: str
) -> None:
    by = decoder(schema(message("Order", line), message("Inner", "string name = 1"), KIND))
    decoded = by.decode(pa.array([b"", written, b""], pa.binary()))
    assert (decoded.kept.to_pylist(), decoded.reasons) == ([0, 2], [reason])


@pytest.mark.parametrize(
    ("field", "seconds", "nanos"),
    [
        ("at", 253_402_300_800, 0),
        ("at", -62_135_596_801, 0),
        ("at", 0, -1),
        ("at", 0, 1_000_000_000),
        ("took", 315_576_000_001, 0),
        ("took", 1, -1),
        ("took", 0, 1_000_000_000),
    ],
)
def test_a_moment_or_duration_that_is_none_is_out_of_range(field: str, seconds: int, nanos: int) -> None:
    by = decoder(load_protobuf_schema(TYPES, "shop.Order", "types.desc"))
    wrong = ORDER()
    getattr(wrong, field).MergeFrom(type(getattr(wrong, field))(seconds=seconds, nanos=nanos))
    assert outcome(by, wrong.SerializeToString()) == f"out_of_range:{field}"


def test_a_required_field_is_asked_for_wherever_its_message_is_written() -> None:
    by = decoder(load_protobuf_schema(TYPES, "shop.Order", "types.desc"))
    without = ORDER(route=[{"x": 1}, {"floor": 1}]).SerializePartialToString()
    assert outcome(by, without) == "missing_required:route[].x"


def test_fields_that_the_schema_does_not_have_are_ignored() -> None:
    newer = b"\x22\x03new\x2a\x02\x08\x01" + GOOD
    assert outcome(decoder(SIMPLE), newer) == {"id": 1, "name": "mill", "size": 2.5}


def test_the_last_of_two_values_counts_as_for_every_reader() -> None:
    fields = ("oneof paid string card = 1", "oneof paid int64 cash = 2", "map<string, int32> v = 3")
    by = decoder(order(*fields))
    entries = b"\x1a\x05\x0a\x01k\x10\x01", b"\x1a\x02\x10\x07", b"\x1a\x05\x0a\x01k\x10\x02"
    twice = b"\x0a\x01a\x10\x05" + b"".join(entries)
    assert outcome(by, twice) == {"card": None, "cash": 5, "v": [("k", 2), ("", 7)]}
    together = by.decode(pa.array([twice, entries[0], b"", twice], pa.binary())).rows.to_pylist()
    assert [row["v"] for row in together] == [[("k", 2), ("", 7)], [("k", 1)], [], [("k", 2), ("", 7)]]


def framed(number: int, value: bytes, place: bytes = b"\x00") -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + place + value


def test_each_record_is_of_the_schema_and_message_that_its_header_names() -> None:
    nested = schema(message("First", "int32 a = 1"), message("Order", *LINES), syntax="proto3")
    by = decoder(SIMPLE, {7: SIMPLE, 70_000: nested})
    row = {"id": 1, "name": "mill", "size": 2.5}
    assert outcome(by, framed(7, GOOD)) == row
    # The long form of the same message index: a list of one index, 0.
    assert outcome(by, framed(7, GOOD, b"\x02\x00")) == row
    assert outcome(by, framed(70_000, GOOD, b"\x02\x02")) == row
    assert outcome(by, framed(70_000, GOOD)) == "other_message"
    assert outcome(by, framed(7, GOOD, b"\x04\x00\x00")) == "other_message"
    assert outcome(by, framed(7, b"", b"")) == "other_message"
    assert outcome(by, framed(7, GOOD, b"\xff\xff\xff\xff\xff\xff")) == "other_message"
    assert outcome(by, framed(8, GOOD)) == "unknown_schema_id:8"
    assert outcome(by, GOOD) == "no_schema_id"
    assert outcome(by, b"\x00\x00") == "no_schema_id"


LINES = ("int32 id = 1", "string name = 2", "double size = 3")


def test_a_message_inside_of_another_is_named_by_both_places() -> None:
    inner = schema(
        message("A", "int32 a = 1"),
        message("B", message("C", "int32 c = 1"), message("Order", *LINES)),
        of="shop.B.Order",
    )
    assert inner.place == (1, 1)
    assert outcome(decoder(inner, {1: inner}), framed(1, GOOD, b"\x04\x02\x02"))["id"] == 1


def test_a_place_that_serializers_number_differently_is_refused() -> None:
    behind = schema(message("B", "map<string, int32> m = 1", message("Order", *LINES)), of="shop.B.Order")
    with pytest.raises(SpecError) as refused:
        decoder(behind, {1: behind})
    assert (refused.value.error_id, behind.place) == ("TIDE-SPEC-067", None)
    assert outcome(decoder(behind), GOOD)["id"] == 1


@pytest.mark.parametrize(
    ("writer", "at"),
    [
        (("string id = 1", *LINES[1:]), "id"),
        (("int32 id = 9", *LINES[1:]), "id"),
        ((*LINES[:2], "float size = 3"), "size"),
    ],
)
def test_a_writer_whose_records_would_be_other_values_is_refused(writer: tuple[str, ...], at: str) -> None:
    with pytest.raises(SpecError) as refused:
        decoder(SIMPLE, {1: order(*writer)})
    assert (refused.value.error_id, refused.value.facts["at"]) == ("TIDE-SPEC-067", at)


BROKEN = [GOOD[:-1], GOOD + b"\x00", b"\x0a\x01a", b"\x12\x01\xff", b"\x1a\x05\x0a\x01k\x10\x01"]
RECORDS = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([GOOD, *BROKEN]))


@given(st.lists(RECORDS, max_size=20))
def test_a_record_s_fate_does_not_depend_on_its_neighbours(records: list[bytes | None]) -> None:
    fields = ("Kind id = 1", "string name = 2", "map<string, Kind> sizes = 3", "repeated Inner parts = 4")
    by = decoder(schema(message("Order", *fields), message("Inner", "optional string name = 1"), KIND))
    together = by.decode(pa.array(records, pa.binary()))
    alone = [by.decode(pa.array([value], pa.binary())) for value in records]
    assert together.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert together.reasons == [reason for one in alone for reason in one.reasons]
    assert sorted([*together.kept.to_pylist(), *together.rejected.to_pylist()]) == list(range(len(records)))


def test_a_decoder_travels_to_spark_s_workers() -> None:
    travelled = pickle.loads(pickle.dumps(decoder(load_protobuf_schema(TYPES, "shop.Order", "types.desc"))))
    assert outcome(travelled, ORDER(id=3).SerializeToString())["id"] == 3
