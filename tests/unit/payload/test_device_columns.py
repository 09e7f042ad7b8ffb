"""Columns of an IoT hub's messages, whatever form their headers have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import proton
import pyarrow as pa
import pytest

from tests.support.amqp_headers import ENQUEUED, amqp, message_headers
from tidemill.payload.decode import _LINEAGE
from tidemill.payload.device_columns import DEVICE_SCHEMA, device_records

CAME = datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)

Header = tuple[str, bytes | None]


def columns(*records: Sequence[Header] | None) -> list[dict[str, Any]]:
    """Return the decoded columns of records with these headers."""
    given = [
        None if record is None else [{"key": name, "value": value} for name, value in record]
        for record in records
    ]
    batch = pa.record_batch({"kafka_headers": pa.array(given, _LINEAGE["kafka_headers"])})
    (rows,) = device_records(iter([batch]))
    assert rows["kafka_headers"].equals(batch["kafka_headers"])
    assert rows.select(DEVICE_SCHEMA.names).schema == DEVICE_SCHEMA
    return [{**row, "iothub_properties": dict(row["iothub_properties"])} for row in rows.to_pylist()]


def column(name: str, content: bytes) -> Any:
    """Return the one column that a property fills, and its rest in the map."""
    (row,) = columns([(name, content)])
    return {key: value for key, value in row.items() if value and key != "kafka_headers"}


def test_a_message_of_a_device_fills_all_columns() -> None:
    headers = message_headers(
        "boiler-7",
        {"iothub-connection-module-id": "probe", "site": "north", "level": 3, "user-id": "u"},
        message_id="m1",
        correlation_id="c1",
        content_type="application/json",
        content_encoding="utf-8",
    )

    (row,) = columns(headers)

    row.pop("kafka_headers")
    assert row == {
        "iothub_device_id": "boiler-7",
        "iothub_module_id": "probe",
        "iothub_enqueued_time": CAME,
        "iothub_auth_method": '{"scope":"device","type":"sas","issuer":"iothub"}',
        "iothub_generation_id": "637388855582764406",
        "iothub_message_source": "Telemetry",
        "iothub_message_id": "m1",
        "iothub_correlation_id": "c1",
        "iothub_content_type": "application/json",
        "iothub_content_encoding": "utf-8",
        "iothub_properties": {"site": "north", "level": "3", "user-id": "u"},
    }


def test_records_without_headers_have_an_empty_map_and_nulls() -> None:
    first, second, third = columns(None, [], [("site", None), ("iothub-connection-device-id", None)])
    assert (first["iothub_properties"], second["iothub_properties"]) == ({}, {})
    assert third["iothub_properties"] == {"site": None}
    assert {row["iothub_device_id"] for row in (first, second, third)} == {None}


def test_the_last_of_several_headers_of_a_name_counts() -> None:
    (row,) = columns([("site", b"a"), ("iothub-message-source", b"x"), ("site", b"b"), ("site", b"c")])
    assert (row["iothub_properties"], row["iothub_message_source"]) == ({"site": "c"}, "x")


@pytest.mark.parametrize("device", ["A", "B", "@@", "P1", "ready", "ä", "0x12", "d1"])
def test_a_device_id_is_the_same_as_amqp_and_as_a_plain_text(device: str) -> None:
    """Even where the text would be a number or a boolean of AMQP."""
    name = "iothub-connection-device-id"
    assert column(name, amqp(device)) == column(name, device.encode()) == {"iothub_device_id": device}


@pytest.mark.parametrize(
    "content",
    [
        *(amqp(value) for value in (proton.timestamp(ENQUEUED), ENQUEUED, proton.ulong(ENQUEUED))),
        *(str(ENQUEUED).encode(), amqp(str(ENQUEUED)), b"2026-01-01T00:00:00.1230000Z"),
        *(amqp("2026-01-01T01:00:00.123+01:00"), b"2026-01-01T00:00:00.123"),
    ],
)
def test_the_enqueued_time_is_read_in_any_form(content: bytes) -> None:
    assert column("iothub-enqueuedtime", content) == {"iothub_enqueued_time": CAME}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("iothub-connection-device-id", b"\xff\xfe"),
        ("iothub-connection-device-id", b"\xa1\x05ab"),
        ("iothub-connection-device-id", amqp(b"\xff")),
        ("iothub-enqueuedtime", b"\x00\xff"),
        ("iothub-enqueuedtime", b"soon"),
        ("iothub-enqueuedtime", amqp(2**62)),
        ("iothub-enqueuedtime", amqp(b"1")),
        ("iothub-enqueuedtime", b"9" * 5000),
        ("iothub-enqueuedtime", b"0001-01-01T00:00:00+14:00"),
        ("iothub-enqueuedtime", b"9999-12-31T23:59:59-14:00"),
        ("site", b"\x00\xa3\x11com.microsoft:uri" * 1200),
        ("message-id", b"\xc3"),
        ("site", b"\xff"),
        ("site", amqp([1, 2])),
        ("creation-time", b"\x83\x00"),
    ],
)
def test_what_cannot_be_decoded_is_null_and_stays_as_its_bytes(name: str, content: bytes) -> None:
    assert column(name, content) == {"iothub_properties": {name: f"0x{content.hex()}"}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((text, text) for text in ("", "north", "true")),
        *((True, "true"), (False, "false"), (0, "0"), (-5, "-5"), (2**40, str(2**40)), (0.1, "0.1")),
        *((proton.timestamp(ENQUEUED), "2026-01-01T00:00:00.123Z"), (b"bytes", "bytes"), (None, None)),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_property_of_the_application_is_a_text(value: Any, text: str | None) -> None:
    (row,) = columns([("p", amqp(value))])
    assert row["iothub_properties"] == {"p": text}


def test_properties_of_amqp_itself_come_as_texts_and_are_not_taken_for_numbers() -> None:
    (row,) = columns([("user-id", b"ready"), ("reply-to", b"A"), ("message-id", b"@"), ("plain", b"text")])
    assert row["iothub_properties"] == {"user-id": "ready", "reply-to": "A", "plain": "text"}
    assert row["iothub_message_id"] == "@"


def test_a_property_that_is_null_is_null() -> None:
    assert column("iothub-connection-module-id", amqp(None)) == {}


def test_any_bytes_in_any_header_become_columns() -> None:
    chosen = random.Random(6)
    names = ["iothub-connection-device-id", "iothub-enqueuedtime", "message-id", "site", "x-opt-offset"]
    records = [
        [(chosen.choice(names), chosen.randbytes(chosen.randrange(12))) for _ in range(chosen.randrange(6))]
        for _ in range(5_000)
    ]
    rows = columns(*records)
    for record, row in zip(records, rows, strict=True):
        held = {name for name, _ in record if not name.startswith("x-opt-")}
        told = {"site", *row["iothub_properties"]} | {
            name
            for name, key in zip(
                names, ("iothub_device_id", "iothub_enqueued_time", "iothub_message_id"), strict=False
            )
            if row[key] is not None
        }
        # Nothing is lost: each is in its column or in the map, but for AMQP's null.
        lost = held - told
        assert all(dict(record)[name] == b"\x40" for name in lost)
