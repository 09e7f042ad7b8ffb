"""The header that schema registry serializers write before a record: the number of the writer's schema."""

from __future__ import annotations

NO_SCHEMA_ID = "no_schema_id"
UNKNOWN_SCHEMA_ID = "unknown_schema_id"

# A zero byte, then the number of the writer's schema, big-endian.
HEADER_BYTES = 5

# Maximum depth of nested messages; no real file has more.
_DEEPEST = 100
_MAX_SHIFT = 28


def schema_number(record: bytes) -> int | None:
    """Return the number of the writer's schema; None if there is no header."""
    if len(record) < HEADER_BYTES or record[0] != 0:
        return None
    return int.from_bytes(record[1:HEADER_BYTES], "big")


def message_place(record: bytes) -> tuple[tuple[int, ...], int] | None:
    """Return the Protobuf message's index in its file, and where the record begins.

    The header has the number of indexes, then each of them: the message's index in the file, then in its
    outer message. All are zigzag varints. A single zero is the file's first message.

    Returns:
        None if these are not such numbers.
    """
    found = _zigzag(record, HEADER_BYTES)
    if found is None:
        return None
    count, at = found
    if count == 0:
        return (0,), at
    place = []
    for _ in range(count if 0 < count <= _DEEPEST else 0):
        found = _zigzag(record, at)
        if found is None:
            return None
        number, at = found
        place.append(number)
    return (tuple(place), at) if place else None


def _zigzag(record: bytes, at: int) -> tuple[int, int] | None:
    """Return a number and the position of the next one."""
    value = 0
    for shift in range(0, _MAX_SHIFT + 1, 7):
        if at >= len(record):
            return None
        byte = record[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return None
