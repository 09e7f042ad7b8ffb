from __future__ import annotations

import io
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.support.avro_schemas import field, logical, record
from tidemill.errors import SpecError
from tidemill.payload.avro_decoder import AvroDecoder
from tidemill.payload.avro_resolution import check_resolves
from tidemill.payload.avro_schema import load_avro_document, load_avro_schema
from tidemill.payload.writers import NamedWriters

PLACE = record(field("x", "double"), field("at", ["null", logical("long", "timestamp-millis")]), name="Place")
ALL = record(
    field("id", "long"),
    field("count", "int"),
    field("ratio", "float"),
    field("open", "boolean"),
    field("name", ["null", "string"]),
    field("kind", {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}),
    field("raw", "bytes"),
    field("hash", {"type": "fixed", "name": "Hash", "size": 2}),
    field("day", logical("int", "date")),
    field("micros", logical("long", "timestamp-micros")),
    field("millis", [logical("long", "timestamp-millis"), "null"]),
    field("price", logical("bytes", "decimal", precision=6, scale=2)),
    field("tax", {"type": "fixed", "name": "Tax", "size": 3, "logicalType": "decimal", "precision": 4}),
    field("key", logical("string", "uuid")),
    field("tags", {"type": "array", "items": ["null", "string"]}),
    field("sizes", {"type": "map", "values": "double"}),
    field("place", PLACE),
    field("route", {"type": "array", "items": ["null", "Place"]}),
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "id": -(2**63),
    "count": 2**31 - 1,
    "ratio": 0.5,
    "open": True,
    "name": None,
    "kind": "OLD",
    "raw": b"\x00\xff",
    "hash": b"ab",
    "day": date(1, 1, 1),
    "micros": NOON.replace(microsecond=123456),
    "millis": NOON,
    "price": Decimal("-1234.56"),
    "tax": Decimal("9999"),
    "key": "0b9c1fd2-5b0f-4f5c-b0c5-6c1a4c1d2f3e",
    "tags": ["a", None],
    "sizes": {"a": 1.0, "b": 2.5},
    "place": {"x": 1.0, "at": NOON},
    "route": [None, {"x": 2.0, "at": None}],
}


def decoder(
    document: dict[str, Any], writers: dict[int, dict[str, Any]] | None = None, limit: int = 1000
) -> AvroDecoder:
    schema, known = load_avro_schema(document, "order.avsc"), None
    if writers is not None:
        named = {number: load_avro_document(writer, f"v{number}.avsc") for number, writer in writers.items()}
        known = NamedWriters(named, lambda writer: check_resolves(writer, schema))
    return AvroDecoder(schema, known, limit)


def encoded(document: dict[str, Any], **values: Any) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(document), values)
    return stream.getvalue()


def outcome(by: AvroDecoder, value: bytes | None) -> Any:
    """Return the row, or the reason."""
    decoded = by.decode(pa.array([value], pa.binary()))
    return decoded.rows.to_pylist()[0] if len(decoded.rows) else decoded.reasons[0]


def test_every_type_becomes_its_column():
    by = decoder(ALL)
    kinds = {column.name: str(column.type) for column in by.columns}
    assert kinds["count"] == "int32"
    assert kinds["day"] == "date32[day]"
    assert kinds["micros"] == kinds["millis"] == "timestamp[us, tz=UTC]"
    assert (kinds["price"], kinds["tax"]) == ("decimal128(6, 2)", "decimal128(4, 0)")
    assert kinds["sizes"] == "map<string, double>"
    row = outcome(by, encoded(ALL, **VALUES))
    assert row == {**VALUES, "sizes": [("a", 1.0), ("b", 2.5)]}
    assert by.decode(pa.array([], pa.binary())).rows.schema == by.columns


SIMPLE = record(field("id", "int"), field("name", "string"), field("size", "double"))
GOOD = encoded(SIMPLE, id=1, name="mill", size=2.5)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"\x02" * 1001, "oversized"),
        (b"", "malformed_avro"),
        (GOOD[:-1], "malformed_avro"),
        (GOOD + b"\x00", "trailing_bytes"),
        (b"\x02\x02\xff" + GOOD[-8:], "malformed_avro"),
        (b"\x02\x03" + GOOD[2:], "malformed_avro"),
        (b"\x80\x80\x80\x80\x10" + GOOD[1:], "malformed_avro"),
        (encoded(SIMPLE, id=1, name="", size=float("nan")), "not_finite:size"),
        (encoded(SIMPLE, id=1, name="", size=float("-inf")), "not_finite:size"),
    ],
)
def test_what_is_no_such_record_has_a_reason(value: bytes | None, reason: str):
    assert outcome(decoder(SIMPLE), value) == reason


@pytest.mark.parametrize(
    ("kind", "raw", "value", "path"),
    [
        (logical("long", "timestamp-micros"), "long", 2**62, "v"),
        (logical("long", "timestamp-millis"), "long", 253_402_300_800_000, "v"),
        (logical("int", "date"), "int", -719_163, "v"),
        (logical("bytes", "decimal", precision=4, scale=2), "bytes", (10_000).to_bytes(3, "big"), "v"),
        (
            {"type": "array", "items": logical("int", "date")},
            {"type": "array", "items": "int"},
            [0, 2**30],
            "v[]",
        ),
        (
            {"type": "map", "values": logical("long", "timestamp-millis")},
            {"type": "map", "values": "long"},
            {"a": 0, "b": 2**62},
            "v[]",
        ),
    ],
)
def test_a_value_that_no_column_holds_is_out_of_range(kind: Any, raw: Any, value: Any, path: str):
    by = decoder(record(field("v", kind)))
    zero = {"bytes": b"", "array": [], "map": {}}.get(raw if isinstance(raw, str) else raw["type"], 0)
    records = [encoded(record(field("v", raw)), v=v) for v in (zero, value, zero)]
    decoded = by.decode(pa.array(records, pa.binary()))
    assert (decoded.kept.to_pylist(), decoded.reasons) == ([0, 2], [f"out_of_range:{path}"])


def test_not_finite_numbers_are_found_at_any_depth_and_kept_where_the_schema_allows_it():
    nan = float("nan")
    document = record(
        field("list", {"type": "array", "items": "double"}),
        field("map", {"type": "map", "values": ["null", "float"]}),
        field("free", ["null", "double"], **{"x-allow-non-finite": True}),
    )
    by = decoder(document)
    assert outcome(by, encoded(document, list=[1.0, nan], map={}, free=1.0)) == "not_finite:list[]"
    assert outcome(by, encoded(document, list=[], map={"a": nan}, free=1.0)) == "not_finite:map[]"
    assert str(outcome(by, encoded(document, list=[], map={}, free=nan))["free"]) == "nan"


OLD = record(field("id", "int"), field("name", "string"))
NEW = record(field("name", "string"), field("id", "long"), field("size", ["null", "double"], default=None))


def framed(number: int, value: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + value


def test_each_record_is_read_by_the_schema_that_its_number_names():
    by = decoder(NEW, {7: OLD, 70_000: NEW})
    assert outcome(by, framed(7, encoded(OLD, id=1, name="a"))) == {"name": "a", "id": 1, "size": None}
    new = framed(70_000, encoded(NEW, name="b", id=2**40, size=0.5))
    assert outcome(by, new) == {"name": "b", "id": 2**40, "size": 0.5}
    assert outcome(by, framed(8, encoded(OLD, id=1, name="a"))) == "unknown_schema_id:8"
    assert outcome(by, b"\x01" + new[1:]) == "no_schema_id"
    assert outcome(by, b"\x00\x00\x00") == "no_schema_id"
    assert outcome(by, framed(7, encoded(OLD, id=1, name="a") + b"x")) == "trailing_bytes"


@pytest.mark.parametrize(
    ("writer", "at"),
    [
        (record(field("name", "string")), "id"),
        (record(field("id", "double"), field("name", "string")), "id"),
        (record(field("id", "int"), field("name", "string"), name="Other"), "the top"),
        (record(field("id", "int"), field("name", {"type": "array", "items": "string"})), "name"),
    ],
)
def test_a_writer_whose_records_cannot_be_read_is_refused(writer: dict[str, Any], at: str):
    with pytest.raises(SpecError) as refused:
        decoder(NEW, {1: writer})
    assert refused.value.error_id == "TIDE-SPEC-063"
    facts = refused.value.facts
    assert (facts["schema"], facts["writer"], facts["at"]) == ("order.avsc", "v1.avsc", at)


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (["null", "bytes"], None, None),
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}], None, None),
        ("long", 5, 5),
        ("string", "\u00ff", "\u00ff"),
        (["null", "double"], None, None),
        (logical("long", "timestamp-millis"), 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (logical("int", "date"), 1, date(1970, 1, 2)),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": "int"}, [1], [1]),
        ({"type": "map", "values": "string"}, {"aliases": "a"}, [("aliases", "a")]),
    ],
)
def test_other_defaults_fill_what_a_writer_does_not_know(kind: Any, default: Any, value: Any):
    writer = record(field("id", "int"))
    by = decoder(record(field("id", "int"), field("v", kind, default=default)), {1: writer})
    assert outcome(by, framed(1, encoded(writer, id=1))) == {"id": 1, "v": value}


RECORDS = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([GOOD, GOOD[:-1], GOOD + b"x"]))


@given(st.lists(RECORDS, max_size=20))
def test_a_record_s_fate_does_not_depend_on_its_neighbours(records: list[bytes | None]):
    by = decoder(SIMPLE)
    together = by.decode(pa.array(records, pa.binary()))
    alone = [by.decode(pa.array([value], pa.binary())) for value in records]
    assert together.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert together.reasons == [reason for one in alone for reason in one.reasons]
    assert sorted([*together.kept.to_pylist(), *together.rejected.to_pylist()]) == list(range(len(records)))


def test_a_decoder_travels_to_spark_s_workers():
    travelled = pickle.loads(pickle.dumps(decoder(NEW, {7: OLD})))
    assert outcome(travelled, framed(7, encoded(OLD, id=1, name="a")))["id"] == 1
