"""Bytes of another implementation of AMQP, Qpid Proton, and of the specification."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import proton
import pytest

from tests.support.amqp_headers import ENQUEUED, amqp
from tidemill.payload.amqp_values import decoded, encoded

SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (None, None),
        *((flag, flag) for flag in (True, False)),
        *((text, text) for text in ("", "d1", "ä€😀", "x" * 255, "x" * 256)),
        *((data, data) for data in (b"", b"\xff", b"x" * 256)),
        *((proton.symbol(text), text) for text in ("Telemetry", "x" * 256)),
        *((proton.ubyte(n), n) for n in (0, 255)),
        *((proton.byte(n), n) for n in (-128, 127)),
        *((proton.ushort(n), n) for n in (0, 65535)),
        *((proton.short(n), n) for n in (-32768, 32767)),
        *((proton.uint(n), n) for n in (0, 255, 256, 2**32 - 1)),
        *((proton.int32(n), n) for n in (0, -128, 127, -(2**31), 2**31 - 1)),
        *((proton.ulong(n), n) for n in (0, 255, 256, 2**64 - 1)),
        *((n, n) for n in (0, -128, 127, -(2**63), 2**63 - 1)),
        (proton.float32(0.5), 0.5),
        (-1e300, -1e300),
        (proton.char("😀"), "😀"),
        (SOME_UUID, SOME_UUID),
        (proton.timestamp(ENQUEUED), datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)),
        (proton.timestamp(-1), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ],
    ids=repr,
)
def test_each_type_is_read_as_it_was_sent(sent: Any, value: Any) -> None:
    found = decoded(amqp(sent))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b"plain text",
            b"\xa1",
            b"\xa1\x02a",
            b"\xa1\x01ab",
            b"\xa1\x01\xff",
            b"\xa3\x01\xe4",
            b"\x81\x00",
        ),
        *(b"A0", b"\x56\x02", b"\x56", b"\x45", b"\xb1\x00\x00\x00", b"\xb1\x7f\xff\xff\xff1", b"\x98123"),
        *(b"\x73\x00\x11\x00\x00", b"\x73\x00", b"\x83\x00", b"\x83\x7f" + b"\xff" * 7, b"\x94" + b"0" * 16),
        *(b"\xc1\x01\x00", b"\x00\xa3\x11com.microsoft:uri", b"\x00\xa3\x01x\xa1\x01y"),
    ],
)
def test_what_is_not_exactly_one_value_is_refused(content: bytes) -> None:
    assert is_refused(content)


def is_refused(content: bytes) -> bool:
    try:
        decoded(content)
    except ValueError:
        return True
    return False


def test_a_uri_is_its_text() -> None:
    assert decoded(amqp(proton.Described(proton.symbol("com.microsoft:uri"), "sb://a"))) == "sb://a"


def test_what_capture_keeps_is_encoded_as_a_kafka_client_is_given_it() -> None:
    for value in (2**40, 0.1, "d1", "ä" * 200, True, False):
        assert encoded(value) == amqp(value)
    assert encoded(b"\xffas it is") == b"\xffas it is"


def test_whatever_the_bytes_the_answer_is_a_value_or_a_refusal() -> None:
    chosen = random.Random(6)
    kinds = [0, 0x40, 0x56, 0x73, 0x82, 0x83, 0x98, 0xA1, 0xB1]
    contents = [
        bytes([chosen.choice([*kinds, chosen.randrange(256)])]) + chosen.randbytes(chosen.randrange(18))
        for _ in range(20_000)
    ]
    refusals = [is_refused(content) for content in contents]
    assert 100 < sum(refusals) < len(contents) - 100
