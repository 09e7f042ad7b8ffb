"""Reading where a changelog's lineage begins, without Spark's libraries."""

from __future__ import annotations

import struct

import pytest

from tidemill.checkpoint.reading.state_lineage import LINEAGE_BYTES, lineage_start

RAW, COMPRESSED = 0x10, 0x20


def text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def lineage(*versions: int) -> bytes:
    items = (b'{"version":%d,"checkpointUniqueId":"1864d66a-7998"}' % version for version in versions)
    return text(b"v3") + text(b"[" + b",".join(items) + b"]")


def block(kind: int, body: bytes) -> bytes:
    return b"LZ4Block" + struct.pack("<BIII", kind | 5, len(body), 0, 0) + body


def literals(content: bytes) -> bytes:
    """An LZ4 block without a match."""
    more, rest = divmod(len(content) - 15, 255)
    return b"\xf0" + b"\xff" * more + bytes([rest]) + content


def test_the_oldest_version_that_is_named_is_the_start() -> None:
    assert lineage_start(block(RAW, lineage(6, 7, 8))) == 6
    assert lineage_start(block(COMPRESSED, literals(lineage(6, 7, 8) + b"keys and values"))) == 6


def test_a_match_repeats_what_was_written() -> None:
    start = text(b"v3") + text(b'[{"version":12},{"version":13}]')
    repeated = start.index(b'{"version":1', 10)
    first, last = start[:repeated], start[repeated + 12 :]
    distance = repeated - start.index(b'{"version":1')
    token = bytes([0xF0 | 12 - 4, len(first) - 15])
    body = token + first + struct.pack("<H", distance) + bytes([len(last) << 4]) + last
    assert lineage_start(block(COMPRESSED, body)) == 12


def test_the_first_version_follows_from_nothing() -> None:
    assert lineage_start(block(RAW, lineage())) == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x28\xb5\x2f\xfd zstd",
        b"LZ4Block",
        block(0x30, lineage(6)),
        block(RAW, text(b"v1") + text(b"[]")),
        block(RAW, text(b"v3") + struct.pack(">H", 900) + b"[{"),
        block(RAW, text(b"v3") + text(b"{}{")),
        block(RAW, text(b"v3") + text(b'[{"v":1}]')),
        block(COMPRESSED, b"\xf0\xff\xff"),
        block(COMPRESSED, b"\x10v\x09\x00"),
        block(COMPRESSED, literals(text(b"v3") + struct.pack(">H", 40_000) + b"[" * 2 * LINEAGE_BYTES)),
    ],
)
def test_what_cannot_be_told_is_not_guessed(content: bytes) -> None:
    assert lineage_start(content) is None


def test_a_changelog_that_was_cut_anywhere_says_the_same_or_nothing() -> None:
    whole = block(COMPRESSED, literals(lineage(3, 4)))
    assert {lineage_start(whole[:length]) for length in range(len(whole))} <= {3, None}
