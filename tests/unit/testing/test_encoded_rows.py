"""Rows for Avro and Protobuf payloads: what the kit encodes is what the pipeline's own decoder reads."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.avro_schemas import field, logical, record
from tests.support.conf_project import ConfProject
from tests.support.protobuf_schemas import PROTOC_MADE
from tidemill import testing
from tidemill.errors import UsageError
from tidemill.payload.decoders import decoder_of
from tidemill.testing.record_encoder import RecordEncoder

PAYLOAD = "  json: {schema: order.json}\nevent_time: {column: at, watermark: 10 minutes}"
AVRO = "  avro: {schema: order.avsc}"
PROTOBUF = "  protobuf: {schema: order.desc, message: shop.Order}"

PLACE = record(field("x", "double"), field("label", ["null", "string"]), name="Place")
ORDER = record(
    field("id", "long"),
    field("ratio", "float", default=0.5),
    field("kind", {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}),
    field("raw", "bytes"),
    field("day", logical("int", "date")),
    field("at", ["null", logical("long", "timestamp-micros")]),
    field("price", logical("bytes", "decimal", precision=6, scale=2)),
    field("sizes", {"type": "map", "values": "double"}),
    field("route", {"type": "array", "items": PLACE}),
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW: dict[str, Any] = {
    "id": 7,
    "kind": "OLD",
    "raw": b"\x00\xff",
    "day": date(2026, 1, 1),
    "price": Decimal("-1.50"),
    "sizes": {"a": 1.0},
    "route": [{"x": 2.0}],
}
# The row as columns: with the default value, and null where no value was given.
AVRO_COLUMNS = {
    **ROW,
    "ratio": 0.5,
    "at": None,
    "sizes": [("a", 1.0)],
    "route": [{"x": 2.0, "label": None}],
}


@pytest.fixture
def project(tmp_path: Path) -> ConfProject:
    project = ConfProject(tmp_path / "project")
    project.write("conf/schemas/order.avsc", json.dumps(ORDER))
    older = [declared for declared in ORDER["fields"] if declared["name"] != "ratio"]
    project.write("conf/schemas/older.avsc", json.dumps(record(*older)))
    project.write("conf/schemas/order.desc", (PROTOC_MADE / "types.desc").read_bytes())
    return project


class Encoded:
    """A pipeline's payload, both ways."""

    def __init__(self, project: ConfProject, payload: str) -> None:
        project.replace(PAYLOAD, payload)
        file = project.folder / "conf/pipelines/orders.yaml"
        run = testing.pipeline(file, project.folder.parent / "data", None)  # type: ignore[arg-type]
        (self.stream,) = run.resolved.streams.values()

    def records(self, *rows: dict[str, Any]) -> list[bytes]:
        return [value for one in RecordEncoder(self.stream).records(rows) if (value := one.value) is not None]

    def rows(self, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows that the pipeline decodes from them."""
        assert self.stream.spec.payload is not None
        decoder = decoder_of(self.stream.spec.payload, self.stream.environment.project.schemas)
        return list(decoder.decode(pa.array(self.records(*rows), pa.binary())).rows.to_pylist())

    def refusal(self, *rows: dict[str, Any]) -> UsageError:
        with pytest.raises(UsageError) as refused:
            self.records(*rows)
        return refused.value


def test_a_row_is_an_avro_datum_of_the_pipelines_schema(project: ConfProject) -> None:
    encoded = Encoded(project, AVRO)
    late = {"at": "2026-01-01T13:00:00+01:00", "day": "2026-01-01", "ratio": 1}
    assert encoded.rows(ROW, {**ROW, **late}) == [AVRO_COLUMNS, {**AVRO_COLUMNS, "at": NOON, "ratio": 1.0}]
    # The time is UTC, whereas fastavro would use the machine's time zone.
    assert encoded.rows({**ROW, "at": datetime(2026, 1, 1, 12)})[0]["at"] == NOON  # noqa: DTZ001


@pytest.mark.parametrize(
    ("row", "reason", "fix"),
    [
        ({"idd": 1}, "unknown column idd", "did you mean id?"),
        ({"route": [{"y": 1.0}]}, "unknown column y", "use x, label"),
        ({"id": 1.5}, "shop.Order.id is <1.5> of type <class 'float'> expected long", "correct the value"),
        ({"id": None}, "Field(shop.Order.id) is None expected long", "correct the value"),
        ({"kind": "GONE"}, "shop.Order.kind is <GONE>", "correct the value"),
        ({"at": "soon"}, "Invalid isoformat string: 'soon'", "write a datetime, or ISO 8601"),
        ({"price": Decimal("1.234")}, "Scale provided in schema does not match", "correct the value"),
        ({"ratio": float("nan")}, "not_finite:ratio", "correct the row; to see what becomes"),
    ],
)
def test_a_row_that_is_no_avro_datum_is_refused(
    project: ConfProject, row: dict[str, Any], reason: str, fix: str
) -> None:
    error = Encoded(project, AVRO).refusal(ROW, {**ROW, **row})
    assert (error.error_id, error.facts["row"]) == ("TIDE-TEST-003", 1)
    assert str(error.facts["reason"]).startswith(reason)
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("framing", "header"),
    [
        ("ids: {2: older.avsc, 7: order.avsc, 300: older.avsc}", b"\x00\x00\x00\x00\x07"),
        ("writers: registry", b"\x00\x00\x00\x00\x01"),
    ],
)
def test_a_framed_row_has_the_number_of_the_pipelines_schema(
    project: ConfProject, framing: str, header: bytes
) -> None:
    encoded = Encoded(project, f"  avro: {{schema: order.avsc, framing: confluent, {framing}}}")
    (framed,) = encoded.records(ROW)
    assert framed.startswith(header)
    assert encoded.rows(ROW) == [AVRO_COLUMNS]


def test_a_row_is_written_by_the_newest_schema_where_no_number_names_the_pipelines(
    project: ConfProject,
) -> None:
    project.write("conf/schemas/first.avsc", json.dumps(record(field("id", "long"))))
    project.write("conf/schemas/wide.avsc", json.dumps(record(field("id", "int"), field("note", "string"))))
    framing = "framing: confluent, ids: {2: older.avsc, 300: wide.avsc}"
    encoded = Encoded(project, f"  avro: {{schema: first.avsc, {framing}}}")
    assert encoded.records({"id": 1, "note": ""}) == [b"\x00\x00\x00\x01\x2c\x02\x00"]
    assert encoded.rows({"id": 1, "note": ""}) == [{"id": 1}]


MESSAGE: dict[str, Any] = {
    "id": 7,
    "kind": "OLD",
    "raw": b"\x00\xff",
    "u64": 2**64 - 1,
    "at": "2026-01-01T12:00:00Z",
    "took": Decimal("-1.5"),
    "count": 3,
    "tags": ["a"],
    "sizes": {"a": 1.0},
    "dates": {"a": NOON},
    "visits": [datetime(2026, 1, 1, 12)],  # noqa: DTZ001  # taken as UTC
    "route": [{"x": 1, "side": "LEFT"}],
    "maybe": None,
}


def test_a_row_is_a_protobuf_message_of_the_pipelines_schema(project: ConfProject) -> None:
    encoded = Encoded(project, PROTOBUF)
    seconds, apart = encoded.rows(MESSAGE, {"took": timedelta(seconds=-2, microseconds=1), "cash": 5})
    assert seconds["route"][0]["x"] == 1.0
    assert {name: seconds[name] for name in MESSAGE if name != "route"} == {
        **{name: value for name, value in MESSAGE.items() if name != "route"},
        "u64": Decimal(2**64 - 1),
        "at": NOON,
        "sizes": [("a", 1.0)],
        "dates": [("a", NOON)],
        "visits": [NOON],
    }
    assert (apart["took"], apart["cash"], apart["id"], apart["at"]) == (Decimal("-1.999999"), 5, 0, None)


@pytest.mark.parametrize(
    ("row", "reason", "fix"),
    [
        ({"idd": 1}, "unknown column idd", "did you mean id?"),
        ({"place": {"xx": 1.0}}, "unknown column xx", "did you mean x?"),
        ({"id": "1"}, "'str' object cannot be interpreted as an integer", "correct the value"),
        ({"i32": 2**31}, "Value out of range: 2147483648", "correct the value"),
        ({"kind": "GONE"}, 'unknown enum label "GONE"', "correct the value"),
        ({"raw": "text"}, "expected bytes, str found", "correct the value"),
        ({"tags": "abc"}, "tags is no list", "write a list"),
        ({"at": "soon"}, "Invalid isoformat string: 'soon'", "correct the value; a time is"),
        ({"at": 7}, "7 is no time", "correct the value; a time is a datetime or ISO 8601"),
        ({"took": "1"}, "'1' is no timedelta and no Decimal of seconds", "correct the value"),
        ({"real": float("nan")}, "not_finite:real", "correct the row; to see what becomes"),
    ],
)
def test_a_row_that_is_no_such_message_is_refused(
    project: ConfProject, row: dict[str, Any], reason: str, fix: str
) -> None:
    error = Encoded(project, PROTOBUF).refusal({"id": 1}, row)
    assert (error.error_id, error.facts["row"]) == ("TIDE-TEST-003", 1)
    assert str(error.facts["reason"]).startswith(reason)
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        # The second message of its file, by two numbers; the first one, by a zero.
        ("shop.Order", b"\x00\x00\x00\x00\x07\x02\x02"),
        ("shop.Other", b"\x00\x00\x00\x00\x07\x00"),
        ("shop.Other.Inner", b"\x00\x00\x00\x00\x07\x04\x00\x00"),
    ],
)
def test_a_framed_message_has_its_place_behind_the_number(
    project: ConfProject, name: str, header: bytes
) -> None:
    framing = "framing: confluent, ids: {7: order.desc}"
    encoded = Encoded(project, f"  protobuf: {{schema: order.desc, message: {name}, {framing}}}")
    assert encoded.records({}) == [header]
    assert len(encoded.rows({})) == 1
