"""Decode and encode AMQP 1.0 values: one byte is the type, the rest is big-endian (part 1, section 1.6).

Event Hubs passes the properties of an AMQP message to Kafka clients in this form. The SDK has a decoder, but
not as a stable interface, and it checks neither trailing bytes nor lengths.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

AmqpValue = None | bool | int | float | str | bytes | datetime | UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_SHORT = 0xFF

# Types that have only the type byte.
_CONSTANTS: dict[int, AmqpValue] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}

# Formats of fixed-length types: ubyte, byte, small uint, ulong, int and long, ushort, short, uint, int,
# float, ulong, long, double.
_NUMBERS = {
    0x50: ">B",
    0x51: ">b",
    0x52: ">B",
    0x53: ">B",
    0x54: ">b",
    0x55: ">b",
    0x60: ">H",
    0x61: ">h",
    0x70: ">I",
    0x71: ">i",
    0x72: ">f",
    0x80: ">Q",
    0x81: ">q",
    0x82: ">d",
}

# A URI, the only described type that Microsoft's clients send as text.
_URI = b"\x00\xa3\x11com.microsoft:uri"


def decoded(value: bytes) -> AmqpValue:
    """Return the value if the bytes are exactly one: a primitive type except decimals, or a URI.

    Raises:
        ValueError: If they are not.
    """
    if not value:
        raise ValueError("empty")
    value = value.removeprefix(_URI)
    if not value or value.startswith(_URI):
        raise ValueError("a URI of no text")
    kind, content = value[0], value[1:]
    if kind in _CONSTANTS and not content:
        return _CONSTANTS[kind]
    if kind in _NUMBERS:
        return _number(_NUMBERS[kind], content)
    if kind in _OTHERS:
        return _OTHERS[kind](content)
    raise ValueError("no AMQP type that is known")


def encoded(value: float | str | bytes) -> bytes:
    """Return the bytes that a Kafka client receives for a value that Capture stores.

    Bytes stay unchanged: they are the header of a Kafka producer, which Event Hubs does not interpret.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        text = value.encode()
        short = len(text) <= _LONGEST_SHORT
        return (b"\xa1" if short else b"\xb1") + len(text).to_bytes(1 if short else 4) + text
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, int):
        return b"\x81" + value.to_bytes(8, signed=True)
    return b"\x82" + struct.pack(">d", value)


def moment_of(milliseconds: int) -> datetime:
    """Convert an AMQP time: milliseconds since 1970.

    Raises:
        ValueError: If it is outside of the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise ValueError("beyond the years") from error


def _number(form: str, content: bytes) -> AmqpValue:
    try:
        (number,) = struct.unpack(form, content)
    except struct.error as error:
        raise ValueError("length") from error
    return number  # type: ignore[no-any-return]  # struct has no types


def _boolean(content: bytes) -> bool:
    if content not in (b"\x00", b"\x01"):
        raise ValueError("no boolean")
    return content == b"\x01"


def _character(content: bytes) -> str:
    if len(content) != 4:
        raise ValueError("length")
    return content.decode("utf-32-be")


def _timestamp(content: bytes) -> datetime:
    if len(content) != 8:
        raise ValueError("length")
    return moment_of(int.from_bytes(content, signed=True))


def _uuid(content: bytes) -> UUID:
    return UUID(bytes=content)


def _sized(width: int, content: bytes) -> bytes:
    if len(content) < width or len(content) != width + int.from_bytes(content[:width]):
        raise ValueError("length")
    return content[width:]


# Short and long forms: binary, string, symbol.
_OTHERS: dict[int, Callable[[bytes], AmqpValue]] = {
    0x56: _boolean,
    0x73: _character,
    0x83: _timestamp,
    0x98: _uuid,
    0xA0: lambda content: _sized(1, content),
    0xA1: lambda content: _sized(1, content).decode(),
    0xA3: lambda content: _sized(1, content).decode("ascii"),
    0xB0: lambda content: _sized(4, content),
    0xB1: lambda content: _sized(4, content).decode(),
    0xB3: lambda content: _sized(4, content).decode("ascii"),
}
