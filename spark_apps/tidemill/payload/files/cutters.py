"""The ways to cut a file into records, chosen by the source's declaration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from tidemill.payload.csv_fields import CsvSplitter
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.csv_records import CsvCutter
from tidemill.payload.files.lines import cut_lines, json_documents, line_start, lines_before
from tidemill.payload.files.records import KEPT_OF_OVERSIZED, FileRecords, cut_stream
from tidemill.payload.files.text_blocks import text_blocks, whole_blocks, without_mark
from tidemill.payload.readable import OVERSIZED

# The same as in payload/protobuf_decoder.py, which would load Protobuf's runtime.
MALFORMED_PROTOBUF = "malformed_protobuf"

# Maximum bytes of a message's length prefix, for 2 GiB.
_LONGEST_PREFIX = 5


class Cutter(Protocol):
    """Cuts files into records."""

    def records(self, source: FileRange) -> Iterator[FileRecords]:
        """Return the records that begin in a range.

        Raises:
            FileRejectedError: If the file has no readable record; before the first record.
        """

    def lines_before(self, source: FileRange) -> int:
        """Return the number of lines of the file before the first record of a range."""


@dataclass(frozen=True)
class Lines:
    """Each line is a record.

    Args:
        separator: End of a line; None for any line break.
        encoding: Encoding of the text; None for UTF-8.
    """

    separator: bytes | None = None
    encoding: str | None = None

    def records(self, source: FileRange) -> Iterator[FileRecords]:
        """See `Cutter`."""
        cut = cut_lines(self.separator)
        if source.is_whole:
            return cut_stream(source, text_blocks(source, self.encoding), cut)
        begin, end = (line_start(source, place, self.separator) for place in (source.start, source.end))
        return cut_stream(source, _text(source, begin, end), cut)

    def lines_before(self, source: FileRange) -> int:
        """See `Cutter`."""
        return lines_before(source, line_start(source, source.start, self.separator), self.separator)


@dataclass(frozen=True)
class FieldNames:
    """Names of the fields of CSV files.

    Args:
        without_header: Returns the names of a file without a header; None if its fields are the columns.
        header: Called with the names of each header.
    """

    without_header: Callable[[FileRange], tuple[str, ...] | None]
    header: Callable[[FileRange, tuple[str, ...]], None]


def _nothing(*_: object) -> None:
    pass


NO_NAMES = FieldNames(_nothing, _nothing)


@dataclass(frozen=True)
class CsvRecords:
    """Each line is a record, together with the following lines of an open quote.

    Args:
        splitter: Splits a record into fields.
        known: Names of columns in lower case, if files begin with a header; None if they have none.
        encoding: Encoding of the text; None for UTF-8.
        names: Names of fields.
    """

    splitter: CsvSplitter
    known: Collection[str] | None
    encoding: str | None = None
    names: FieldNames = NO_NAMES

    def records(self, source: FileRange) -> Iterator[FileRecords]:
        """See `Cutter`."""
        records = self._records(source)
        if self.known is not None:
            return records
        names = self.names.without_header(source)
        return records if names is None else (replace(piece, names=names) for piece in records)

    def _records(self, source: FileRange) -> Iterator[FileRecords]:
        cutter = CsvCutter(self.splitter, self.known, self.names.header)
        if source.is_whole:
            return cutter.records(source, text_blocks(source, self.encoding), 0)
        begin, end = (cutter.start(source, place)[0] for place in (source.start, source.end))
        if begin >= end:
            return iter(())
        return cutter.records(source, _text(source, begin, end), begin)

    def lines_before(self, source: FileRange) -> int:
        """See `Cutter`."""
        return CsvCutter(self.splitter, self.known).start(source, source.start)[1]


@dataclass(frozen=True)
class WholeFile:
    """Each file is one record, or has JSON documents that may span lines.

    Args:
        is_json: True for documents.
        encoding: Encoding of the text; None for UTF-8.
    """

    is_json: bool
    encoding: str | None = None

    def records(self, source: FileRange) -> Iterator[FileRecords]:
        """See `Cutter`."""
        text = b""
        for block in text_blocks(source, self.encoding):
            text += block
            if len(text) > MAX_BLOCK_BYTES:
                kept = pa.array([text[:KEPT_OF_OVERSIZED]], pa.binary())
                yield FileRecords.of(source, kept, pa.array([1]), OVERSIZED)
                return
        if self.is_json:
            yield from json_documents(source, text)
        elif text:
            yield FileRecords.of(source, pa.array([text], pa.binary()), pa.array([1]))

    def lines_before(self, source: FileRange) -> int:  # noqa: ARG002  # a file is one range
        """See `Cutter`."""
        return 0


class DelimitedMessages:
    """Each record follows its length, as Protobuf's `writeDelimitedTo` writes messages."""

    def records(self, source: FileRange) -> Iterator[FileRecords]:
        """See `Cutter`."""
        buffer = b""
        for block in whole_blocks(source):
            buffer += block
            values, used = _messages(buffer)
            buffer = buffer[used:]
            yield _without_lines(source, values)
            if len(buffer) > MAX_BLOCK_BYTES:
                yield _without_lines(source, [buffer[:KEPT_OF_OVERSIZED]], OVERSIZED)
                return
        if buffer:
            # The last message ends too soon.
            yield _without_lines(source, [buffer], MALFORMED_PROTOBUF)

    def lines_before(self, source: FileRange) -> int:  # noqa: ARG002  # a file is one range
        """See `Cutter`."""
        return 0


def _without_lines(source: FileRange, values: list[bytes], reason: str | None = None) -> FileRecords:
    lines = pa.nulls(len(values), pa.int64())
    return FileRecords.of(source, pa.array(values, pa.binary()), lines, reason)


def _messages(buffer: bytes) -> tuple[list[bytes], int]:
    """Return the complete messages at the beginning of a buffer, and their number of bytes."""
    values: list[bytes] = []
    place = 0
    while (found := _length(buffer, place)) is not None and found[1] + found[0] <= len(buffer):
        length, begin = found
        values.append(buffer[begin : begin + length])
        place = begin + length
    return values, place


def _length(buffer: bytes, place: int) -> tuple[int, int] | None:
    """Return the length of the message at a position, and where it begins; None if that is cut off.

    The length is a Protobuf base-128 varint of at most five bytes.
    """
    length = 0
    for number, byte in enumerate(buffer[place : place + _LONGEST_PREFIX]):
        length |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return length, place + number + 1
    return None


def _text(source: FileRange, begin: int, end: int) -> Iterator[bytes]:
    blocks = source.blocks(begin, end)
    return without_mark(blocks) if begin == 0 else blocks
