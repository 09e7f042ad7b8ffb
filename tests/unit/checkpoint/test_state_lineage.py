"""Reading where a changelog's lineage begins, without Spark's libraries."""

from __future__ import annotations

import struct

import pytest
from pyarrow import Codec

from tidemill.checkpoint.reading.state_lineage import LARGEST_BLOCK, lineage_start

RAW, COMPRESSED = 0x10, 0x20


def text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def lineage(*versions: int) -> bytes:
    items = (b'{"version":%d,"checkpointUniqueId":"1864d66a-7998"}' % version for version in versions)
    return text(b"v3") + text(b"[" + b",".join(items) + b"]")


def block(kind: int, body: bytes, size: int = 0) -> bytes:
    return b"LZ4Block" + struct.pack("<BIII", kind | 5, len(body), size or len(body), 0) + body


def compressed(content: bytes) -> bytes:
    """Compress as Spark's library does; repeated content takes only a few bytes."""
    return block(COMPRESSED, Codec("lz4_raw").compress(content, asbytes=True), len(content))


def test_the_oldest_version_that_is_named_is_the_start() -> None:
    assert lineage_start(block(RAW, lineage(6, 7, 8))) == 6
    assert lineage_start(compressed(lineage(6, 7, 8) + b"keys and values")) == 6


def test_a_long_lineage_is_read_to_its_end() -> None:
    long = lineage(*range(12, 300))
    assert len(compressed(long)) < len(long) / 4
    assert lineage_start(compressed(long)) == 12


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
        compressed(text(b"v3") + struct.pack(">H", 40_000) + b"[" * 32_768),
        block(COMPRESSED, b"\x10v", LARGEST_BLOCK + 1),
    ],
)
def test_what_cannot_be_told_is_not_guessed(content: bytes) -> None:
    assert lineage_start(content) is None


def test_a_changelog_that_was_cut_anywhere_says_the_same_or_nothing() -> None:
    whole = compressed(lineage(3, 4))
    assert {lineage_start(whole[:length]) for length in range(len(whole))} <= {3, None}
