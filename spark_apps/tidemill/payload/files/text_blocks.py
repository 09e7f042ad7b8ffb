"""The bytes of whole files: decompressed, and converted to UTF-8 from other encodings.

A compressed file is read to its end before its first record is used, so a damaged file gives no record at
all.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import pyarrow as pa

from tidemill.payload.files.byte_ranges import BLOCK_BYTES, FileRange
from tidemill.payload.files.records import FileRejectedError

# Maximum decompressed bytes that are kept between the check of a file and its reading. Larger files are
# decompressed twice.
_KEPT_BYTES = 64 * 2**20

_DAMAGED = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException)

# Replaces bytes that are invalid in a declared encoding by half of a surrogate pair, which is not valid
# UTF-8, so that the decoder rejects the record.
_NOT_IN_ENCODING = "tidemill_not_in_encoding"
codecs.register_error(_NOT_IN_ENCODING, lambda error: ("\udcff", cast(UnicodeDecodeError, error).end))


def _zstandard(raw: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))


class _Deflated(io.RawIOBase):
    """A zlib stream."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._stream = zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        while not self._stream.eof:
            given = self._stream.unconsumed_tail or self._raw.read(2**16)
            if not given:
                raise EOFError("the stream ends before its end mark")
            if found := self._stream.decompress(given, size):
                return found
        return b""


# Decompressors by the extension of the file name, as in Hadoop.
_DECOMPRESSORS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    "gz": lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw)),
    "gzip": lambda raw: cast(BinaryIO, gzip.GzipFile(fileobj=raw)),
    "bz2": lambda raw: cast(BinaryIO, bz2.BZ2File(raw)),
    "xz": lambda raw: cast(BinaryIO, lzma.LZMAFile(raw)),  # noqa: SIM115  # the caller reads it to its end
    "zst": _zstandard,
    "deflate": lambda raw: cast(BinaryIO, _Deflated(raw)),
    "zlib": lambda raw: cast(BinaryIO, _Deflated(raw)),
}
_UNSUPPORTED = frozenset({"lz4", "snappy", "lzo"})


class _Raw(io.RawIOBase):
    """The bytes of a file as a stream."""

    def __init__(self, source: FileRange) -> None:
        self._blocks = source.blocks()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # any buffer
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def compression_of(source: FileRange) -> str | None:
    """Return the compression of a file by the extension of its name; None if it has none."""
    ending = source.path.rpartition("/")[2].rpartition(".")[2].lower()
    return ending if ending in _DECOMPRESSORS or ending in _UNSUPPORTED else None


def text_blocks(source: FileRange, encoding: str | None) -> Iterator[bytes]:
    """Return the whole text of a file as UTF-8, without a byte order mark.

    Raises:
        FileRejectedError: If it cannot be decompressed.
    """
    blocks = whole_blocks(source)
    return without_mark(blocks if encoding is None else _as_utf8(blocks, encoding))


def without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Return the text of a file without the byte order mark at its beginning."""
    for first in blocks:
        yield first.removeprefix(codecs.BOM_UTF8)
        break
    yield from blocks


def whole_blocks(source: FileRange) -> Iterator[bytes]:
    """Return the bytes of a whole file.

    Raises:
        FileRejectedError: If it cannot be decompressed.
    """
    compression = compression_of(source)
    return source.blocks() if compression is None else _decompressed(source, compression)


def _decompressed(source: FileRange, compression: str) -> Iterator[bytes]:
    if compression in _UNSUPPORTED:
        raise FileRejectedError(f"unsupported_compression:{compression}")
    kept: list[bytes] = []
    size = 0
    try:
        for block in _blocks_of(source, compression):
            size += len(block)
            if size <= _KEPT_BYTES:
                kept.append(block)
    except _DAMAGED as error:
        raise FileRejectedError(f"damaged_file:{compression}: {error}") from error
    return iter(kept) if size <= _KEPT_BYTES else _blocks_of(source, compression)


def _blocks_of(source: FileRange, compression: str) -> Iterator[bytes]:
    stream = _DECOMPRESSORS[compression](cast(BinaryIO, io.BufferedReader(_Raw(source), 2**20)))
    while block := stream.read(BLOCK_BYTES):
        yield block


def _as_utf8(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_NOT_IN_ENCODING)
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
