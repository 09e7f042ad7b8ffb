"""The beginning of a changelog's lineage: in state format 2, a changelog names the versions it follows.

Spark loads version N by the lineage in N's changelog. It begins at the newest snapshot when N was written.
Spark looks for a snapshot only there and not at older versions. So if that snapshot is lost, the state is
lost, even if older snapshots and all changes still exist.

Format (Spark 4.2, StateStoreChangelogWriterV3 and V4): a version `v3` or `v4`, then a JSON list of versions
with their unique ids, each written with Java's `writeUTF`. All of it is in LZ4 blocks, Spark's default codec.
"""

from __future__ import annotations

import json
import struct

_MAGIC = b"LZ4Block"
# After the magic word: method and level, length in the file, length of the content, checksum.
_HEADER = struct.Struct("<BIII")
_RAW, _COMPRESSED = 0x10, 0x20
_WITH_LINEAGE = (b"v3", b"v4")

# Maximum block size of the format, in bytes. Spark's blocks have 32 kB: a lineage of 400 versions, forty
# times the default distance between two snapshots.
LARGEST_BLOCK = 2**25


def lineage_start(content: bytes) -> int | None:
    """Return the oldest version in a changelog's lineage, which does not include its own version.

    Returns:
        None if it is unknown: another codec or version, or a damaged beginning. 0 if the lineage is empty, as
        for the very first version.
    """
    try:
        start = _first_block(content)
        version, lineage = _utf(start, 0)
        if version not in _WITH_LINEAGE:
            return None
        named = json.loads(_utf(start, lineage)[0])
        return min((int(item["version"]) for item in named), default=0)
    except (KeyError, OSError, TypeError, ValueError, struct.error):
        return None


def _utf(content: bytes, start: int) -> tuple[bytes, int]:
    """Return a string of Java's `writeUTF`, and its end. All strings here are ASCII."""
    (length,) = struct.unpack_from(">H", content, start)
    end = start + 2 + length
    if end > len(content):
        raise ValueError("the text goes on in another block")
    return content[start + 2 : end], end


def _first_block(content: bytes) -> bytes:
    from pyarrow import Codec

    if not content.startswith(_MAGIC):
        raise ValueError("not in LZ4 blocks")
    kind, length, size, _ = _HEADER.unpack_from(content, len(_MAGIC))
    start = len(_MAGIC) + _HEADER.size
    block = content[start : start + length]
    if kind & 0xF0 == _RAW:
        return block
    if kind & 0xF0 == _COMPRESSED and size <= LARGEST_BLOCK:
        return bytes(Codec("lz4_raw").decompress(block, size, asbytes=True))
    raise ValueError("an unknown method, or a damaged header")
