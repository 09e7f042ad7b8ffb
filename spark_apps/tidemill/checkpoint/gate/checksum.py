"""Hadoop's checksum files: `.N.crc` next to `N` on local disks and volumes.

Format (Hadoop ChecksumFileSystem): the bytes `crc` and NUL, the number of bytes in a chunk, then a CRC32 of
each chunk, all big-endian. Spark refuses to read a file that does not match its checksum file.
"""

from __future__ import annotations

import struct
import zlib

_HEADER = struct.Struct(">4sI")


def checksum_matches(content: bytes, twin: bytes) -> bool:
    """Return True if `twin`, the content of a checksum file, matches the content of its file."""
    if len(twin) < _HEADER.size:
        return False
    magic, chunk = _HEADER.unpack_from(twin)
    if magic != b"crc\0" or chunk == 0:
        return False
    return twin[_HEADER.size :] == _sums(content, chunk)


def checksum_of(content: bytes, chunk: int = 512) -> bytes:
    """Return the checksum file that Hadoop writes; 512 is its default chunk (`file.bytes-per-checksum`)."""
    return _HEADER.pack(b"crc\0", chunk) + _sums(content, chunk)


def _sums(content: bytes, chunk: int) -> bytes:
    chunks = (content[start : start + chunk] for start in range(0, len(content), chunk))
    return b"".join(struct.pack(">I", zlib.crc32(part)) for part in chunks)
