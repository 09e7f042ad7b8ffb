"""Where the lineage of a changelog begins: in state format 2 a changelog says from which versions it follows.

Spark loads version N by the lineage in N's changelog, which begins at the newest snapshot of that time; it
looks for a snapshot there and in no older version. So when that snapshot is lost, the state is lost, even if
older snapshots and all changes are still there.

Format (Spark 4.2, StateStoreChangelogWriterV3 and V4): a version `v3` or `v4`, then JSON, a list of versions
with their unique ids, each as Java's `writeUTF` writes it; all in LZ4 blocks, Spark's default codec.
"""

from __future__ import annotations

import json
import struct

_MAGIC = b"LZ4Block"
# After the magic word: method and level, length in the file, length of the content, checksum.
_HEADER = struct.Struct("<BIII")
_RAW, _COMPRESSED = 0x10, 0x20
_WITH_LINEAGE = (b"v3", b"v4")

# Largest block that the format knows, in bytes. Spark's are 32 kB: a lineage of 400 versions, forty times
# what lies between two snapshots by default.
LARGEST_BLOCK = 2**25


def lineage_start(content: bytes) -> int | None:
    """Oldest version that a changelog's lineage names; its own is not among them.

    Returns:
        None if it cannot be told: another codec or version, or a damaged beginning; 0 if it names none, as
        that of the very first version.
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
    """A text of Java's `writeUTF`, and where it ends. All here is ASCII."""
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
