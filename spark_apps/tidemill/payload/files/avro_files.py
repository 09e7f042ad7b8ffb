"""Avro object container files, as in the Avro specification: a header, then blocks of records.

Blocks without records are valid: Event Hubs Capture writes them. A block belongs to the range in which the
sync marker before it begins, and the block after the header belongs to the first range.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError

from tidemill.errors import SpecError
from tidemill.payload.avro_decoder import UNREADABLE_VALUE, AvroDecoder
from tidemill.payload.avro_resolution import Reading, check_resolves, reading_of
from tidemill.payload.avro_schema import AvroDocument, AvroSchema, columns_of, load_avro_document
from tidemill.payload.avro_types import AvroField
from tidemill.payload.avro_values import column_type
from tidemill.payload.decoder import MAX_BLOCK_BYTES, Decoded
from tidemill.payload.files.byte_ranges import BLOCK_BYTES, FileRange
from tidemill.payload.files.reading import FilePiece, whole_ranges
from tidemill.payload.files.records import FileRejectedError

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
# Maximum length of the two numbers before a block: its records and its bytes.
_PREFIX_BYTES = 20

_METADATA = {"type": "map", "values": "bytes"}

# Exceptions of fastavro and the decompressors for damaged bytes.
DAMAGED_AVRO = (
    EOFError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    zlib.error,
    lzma.LZMAError,
    pa.ArrowException,
)


@dataclass(frozen=True)
class AvroHeader:
    """The header of a file.

    Args:
        schema: Writer's schema.
        codec: Compression of the blocks.
        sync: Marker after the header and after each block.
        end: Byte after the header.
    """

    schema: Mapping[str, Any]
    codec: str
    sync: bytes
    end: int


@dataclass(frozen=True)
class AvroRecords:
    """Reads the records of one file with a schema.

    Args:
        container: The file.
        decoder: Decoder of the schema.
        reading: Schemas for fastavro.
    """

    container: AvroContainer
    decoder: AvroDecoder
    reading: Reading

    @staticmethod
    def of(container: AvroContainer, document: AvroDocument, decoder: AvroDecoder) -> AvroRecords:
        """Return the records of a file whose schema resolves."""
        return AvroRecords(container, decoder, reading_of(document, decoder.schema))

    def decoded(self) -> Iterator[Decoded]:
        """Yield the rows of each block, and the rejected records."""
        for count, content in self.container.blocks():
            stream = io.BytesIO(content)
            data = [self._datum(stream) for _ in range(count)]
            if stream.tell() != len(content):
                raise ValueError("a block has bytes behind its last record")
            yield self.decoder.decode_data(data)

    def _datum(self, stream: io.BytesIO) -> dict[str, Any] | str:
        begin = stream.tell()
        try:
            return cast(dict[str, Any], schemaless_reader(stream, self.reading.writer, self.reading.reader))
        except SchemaResolutionError:
            # Only the writer's schema shows where the record ends.
            stream.seek(begin)
            schemaless_reader(stream, self.reading.writer, None)
            return UNREADABLE_VALUE


def avro_pieces(decoder: AvroDecoder, source: FileRange) -> Iterator[FilePiece]:
    """Read a range of a file whose columns a payload declares."""
    container = AvroContainer(source)
    try:
        document = load_avro_document(container.header.schema, source.path)
        check_resolves(document, decoder.schema)
    except SpecError as error:
        raise FileRejectedError(_unreadable(error)) from error
    records = AvroRecords.of(container, document, decoder)
    pieces = (FilePiece.of_columns(source, decoded) for decoded in records.decoded())
    yield from whole_ranges(source, pieces, DAMAGED_AVRO, "avro")


class AvroColumnFile:
    """An Avro file with the types of its own columns.

    Args:
        source: A range of it.
    """

    def __init__(self, source: FileRange) -> None:
        self._container = AvroContainer(source)
        try:
            self._document = load_avro_document(self._container.header.schema, source.path)
        except SpecError as error:
            raise FileRejectedError(_unreadable(error)) from error

    @property
    def schema(self) -> pa.Schema:
        """Return its columns. A field that cannot be a column has a type that fits no declared type."""
        return pa.schema([self._column(field) for field in self._document.record.fields])

    def batches(self, columns: list[str]) -> Iterator[Decoded]:
        """Yield the rows of the range with these columns, and records with a value outside of its type."""
        fields = [field for field in self._document.record.fields if field.name in columns]
        if not fields:
            for count, _ in self._container.blocks():
                rows = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
                yield Decoded(rows, pa.arange(0, count), pa.array([], pa.int64()), [])
            return
        decoder = AvroDecoder(self._only(fields), None, MAX_BLOCK_BYTES)
        yield from AvroRecords.of(self._container, self._document, decoder).decoded()

    def _column(self, field: AvroField) -> pa.Field:
        try:
            (wire,) = self._only([field]).wire
        except SpecError as error:
            return pa.field(field.name, pa.opaque(pa.null(), str(error.facts.get("type", "unknown")), "avro"))
        return pa.field(field.name, column_type(wire.type))

    def _only(self, fields: Sequence[AvroField]) -> AvroSchema:
        """Return the schema of some fields; their numbers may be NaN, as in Parquet."""
        kept = [replace(field, has_default=False, non_finite=True) for field in fields]
        return columns_of(replace(self._document, record=replace(self._document.record, fields=kept)))


def _unreadable(error: SpecError) -> str:
    return f"unreadable_schema: {error.facts.get('at')}: {error.facts.get('reason')}"


class AvroContainer:
    """One open file.

    Args:
        source: A range of it.

    Raises:
        FileRejectedError: If it is not an Avro file.
    """

    def __init__(self, source: FileRange) -> None:
        self._source = source
        self._window = (0, b"")
        try:
            self.header = self._read_header()
            self._decompress = _CODECS[self.header.codec]
        except KeyError as error:
            raise FileRejectedError(f"damaged_file:avro: unknown codec {error}") from error
        except DAMAGED_AVRO as error:
            raise FileRejectedError(f"damaged_file:avro: {error}") from error

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records, and the bytes, of each block of the range.

        Raises:
            ValueError: If a block is damaged.
        """
        position = self.header.end if self._source.is_first else self._first_block()
        is_next = self._source.is_first
        while position < self._source.size:
            if not is_next and position - _SYNC_BYTES >= self._source.end:
                return
            is_next = False
            records, content, position = self._block(position)
            if records:
                yield records, self._decompress(content)

    def _read_header(self) -> AvroHeader:
        content = self._source.content.read(0, BLOCK_BYTES)
        if not content.startswith(_MAGIC):
            raise ValueError("it does not begin with `Obj` and 1")
        stream = io.BytesIO(content)
        stream.seek(len(_MAGIC))
        metadata = cast(dict[str, bytes], schemaless_reader(stream, _METADATA, None))
        end = stream.tell() + _SYNC_BYTES
        if end > len(content):
            raise ValueError("its header ends too soon")
        schema = json.loads(metadata["avro.schema"])
        codec = metadata.get("avro.codec", b"null").decode()
        return AvroHeader(schema, codec, content[end - _SYNC_BYTES : end], end)

    def _first_block(self) -> int:
        """Return where the first block of a later range begins; the end of the file if it has none."""
        position = max(self._source.start, self.header.end)
        while position < self._source.end:
            # A marker that begins in the range may end after it.
            content = self._source.content.read(position, BLOCK_BYTES + _SYNC_BYTES - 1)
            place = content.find(self.header.sync)
            if place >= 0:
                return position + place + _SYNC_BYTES
            position += BLOCK_BYTES
        return self._source.size

    def _block(self, position: int) -> tuple[int, bytes, int]:
        """Return records and bytes of the block at a position, and the position of the next block."""
        prefix = io.BytesIO(self._read(position, _PREFIX_BYTES))
        records, size = (cast(int, schemaless_reader(prefix, "long", None)) for _ in range(2))
        begin = position + prefix.tell()
        end = begin + size + _SYNC_BYTES
        if size < 0 or records < 0 or end > self._source.size:
            raise ValueError(f"the block at byte {position} ends too soon")
        content = self._read(begin, size + _SYNC_BYTES)
        if content[size:] != self.header.sync:
            raise ValueError(f"the block at byte {position} does not end with the sync marker")
        return records, content[:size], end

    def _read(self, position: int, length: int) -> bytes:
        """Return bytes of the file, which are fetched in large pieces."""
        begin, content = self._window
        if not begin <= position <= position + length <= begin + len(content):
            begin, content = position, self._source.content.read(position, max(length, BLOCK_BYTES))
            self._window = (begin, content)
        return content[position - begin : position - begin + length]


def _snappy(content: bytes) -> bytes:
    """Decompress a block, which is followed by a checksum of four bytes."""
    size, shift = 0, 0
    for byte in content:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    found = pa.Codec("snappy").decompress(content[:-4], size, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(content[-4:], "big"):
        raise ValueError("a block has another checksum")
    return cast(bytes, found)


def _zstandard(content: bytes) -> bytes:
    return cast(bytes, pa.CompressedInputStream(pa.BufferReader(content), "zstd").read())


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda content: content,
    "deflate": lambda content: zlib.decompress(content, -15),
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "snappy": _snappy,
    "zstandard": _zstandard,
}
