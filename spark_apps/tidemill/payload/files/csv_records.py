"""Cut CSV files into records, after RFC 4180, and read their header.

A record is a line. A line with an open quote continues in the next lines until a quote closes it, if the
result is valid CSV with any number of fields. Otherwise the line is a broken record, and the next line begins
a new one. So a stray quote costs only its own line, not the rest of the file. Blank lines are not records.

| in the file                                                 | result                               |
|-------------------------------------------------------------|--------------------------------------|
| a file without a record, even without a header              | nothing                              |
| a header with an empty name                                 | every record `bad_header:empty_name` |
| a name twice                                                | `bad_header:repeated_name:<name>`    |
| no name of a known column, in any case: probably no header  | `bad_header:no_known_name`           |
| a header that is not UTF-8, not CSV, or too long            | `bad_header:` and that reason        |

Every record of a file with a bad header is rejected, and so is the header line itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.csv_fields import MALFORMED_CSV, CsvSplitter
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.files.byte_ranges import BLOCK_BYTES, FileRange
from tidemill.payload.files.lines import cut_lines
from tidemill.payload.files.records import Cut, CutBuffer, FileRecords, cut_stream
from tidemill.payload.files.text_blocks import without_mark
from tidemill.payload.readable import INVALID_UTF8, OVERSIZED

BAD_HEADER = "bad_header"


def cut_csv(splitter: CsvSplitter) -> CutBuffer:
    """Return a function that cuts a buffer into records.

    Args:
        splitter: Splits a record into fields.
    """
    lines_of = cut_lines(b"\n")
    quote, comment = (each.encode() for each in (splitter.dialect.quote, splitter.dialect.comment))

    def cut(buffer: bytes, is_last: bool) -> Cut:
        found = lines_of(buffer, is_last)
        values, lines, used, used_lines = found.values, found.lines, found.used, found.used_lines
        if quote and quote in buffer[:used]:
            values, lines, open_line = _with_open_quotes(values, splitter, is_last)
            if open_line is not None:
                used, used_lines = _bytes_of(found.values.slice(0, open_line)), open_line
        return Cut(*_records(values, lines, comment), used, used_lines)

    return cut


def _records(
    values: pa.BinaryArray, lines: pa.Int64Array, comment: bytes
) -> tuple[pa.BinaryArray, pa.Int64Array]:
    """Return records without their last line break; blank lines and comments are left out."""
    if pc.any(pc.ends_with(values, b"\r")).as_py():
        values = pc.replace_substring_regex(values, r"\r\z", "")
    is_record = pc.greater(pc.binary_length(values), 0)
    if comment:
        is_record = pc.and_not(is_record, pc.starts_with(values, comment))
    return values.filter(is_record), lines.filter(is_record)


def _bytes_of(lines: pa.BinaryArray) -> int:
    """Return the number of bytes of lines, with their line feeds."""
    return int(pc.sum(pc.binary_length(lines)).as_py() or 0) + len(lines)


def _with_open_quotes(
    lines: pa.BinaryArray, splitter: CsvSplitter, is_last: bool
) -> tuple[pa.BinaryArray, pa.Int64Array, int | None]:
    """Join the lines of one record; return the lines, their numbers, and the first incomplete line."""
    quotes = pc.count_substring(lines, splitter.dialect.quote)
    places = pc.indices_nonzero(pc.bit_wise_and(quotes, 1)).to_pylist()
    spans: dict[int, tuple[int, bytes]] = {}
    place = 0
    while place < len(places):
        first, *following = places[place : place + 2]
        if not following:
            break
        last = following[0]
        whole = b"\n".join(lines.slice(first, last - first + 1).to_pylist())
        is_one = len(whole) <= MAX_BLOCK_BYTES and splitter.is_record(whole.removesuffix(b"\r"))
        if is_one:
            spans[first] = (last, whole)
        place += 1 + is_one
    open_line = None
    # If the last line has an open quote, it may be closed in bytes that are not read yet.
    if place < len(places) and not is_last and _bytes_of(lines.slice(places[place])) <= MAX_BLOCK_BYTES:
        open_line = places[place]
    end = len(lines) if open_line is None else open_line
    if not spans:
        return lines.slice(0, end), pa.arange(0, end), open_line
    return *_merged(lines, spans, end), open_line


def _merged(
    lines: pa.BinaryArray, spans: dict[int, tuple[int, bytes]], end: int
) -> tuple[pa.BinaryArray, pa.Int64Array]:
    parts: list[pa.BinaryArray] = []
    numbers: list[pa.Int64Array] = []
    done = 0
    for first, (last, whole) in spans.items():
        parts += [lines.slice(done, first - done), pa.array([whole], pa.binary())]
        numbers.append(pa.arange(done, first + 1))
        done = last + 1
    parts.append(lines.slice(done, end - done))
    numbers.append(pa.arange(done, end))
    return pa.concat_arrays(parts), pa.concat_arrays(numbers)


def record_start(source: FileRange, position: int, cut: CutBuffer) -> tuple[int, int]:
    """Return the first byte of the first record at or after a position, and the number of lines before it.

    Only the bytes before a position show if it is inside of quotes, so they are read.
    """
    if position == 0:
        return 0, 0
    begin, lines, buffer = 0, 0, b""
    for block in source.blocks():
        buffer += block
        is_last = begin + len(buffer) >= source.size
        found = cut(buffer, is_last)
        if begin + found.used >= position:
            place, skipped = _first_at(buffer, found, position - begin)
            return begin + place, lines + skipped
        begin, lines, buffer = begin + found.used, lines + found.used_lines, buffer[found.used :]
    return source.size, lines


def _first_at(buffer: bytes, found: Cut, position: int) -> tuple[int, int]:
    """Return the same inside of a buffer with known records."""
    # Find the first byte of each record by counting the line breaks before its line.
    place, line = 0, 0
    for number in found.lines.to_pylist():
        for _ in range(number - line):
            place = buffer.find(b"\n", place) + 1
        line = number
        if place >= position:
            return place, line
    return found.used, found.used_lines


class CsvCutter:
    """Cuts CSV files into records, and reads their headers.

    Args:
        splitter: Splits a record into fields.
        known: Names of columns in lower case, if files begin with a header; None if they have none.
        seen: Called with the names of each file's header.
    """

    def __init__(
        self,
        splitter: CsvSplitter,
        known: Collection[str] | None,
        seen: Callable[[FileRange, tuple[str, ...]], None] | None = None,
    ) -> None:
        self._splitter = splitter
        self._known = known
        self._seen = seen
        self._cut = cut_csv(splitter)

    def records(self, source: FileRange, blocks: Iterable[bytes], begin: int) -> Iterator[FileRecords]:
        """Yield records from bytes that begin with one, each with the names of its file's header.

        Args:
            source: The range.
            blocks: The bytes.
            begin: Position of their first byte in the file.
        """
        records = cut_stream(source, blocks, self._cut)
        if self._known is None:
            yield from records
            return
        first = next(records, None) if begin == 0 else self._first_of_file(source)
        if first is None:
            return
        found = self._header(first.values[0].as_py())
        names, reason = (None, found) if isinstance(found, str) else (found, None)
        if names is not None and begin == 0 and self._seen is not None:
            self._seen(source, names)
        if begin == 0:
            # Without its header the file's records have no names, so the header is rejected with them.
            rest = first if names is None else _without_first(first)
            records = chain([rest], records)
        for piece in records:
            yield FileRecords.of(source, piece.values, piece.lines, reason, names)

    def start(self, source: FileRange, position: int) -> tuple[int, int]:
        """See `record_start`."""
        return record_start(source, position, self._cut)

    def _first_of_file(self, source: FileRange) -> FileRecords | None:
        return next(cut_stream(source, without_mark(source.blocks()), self._cut), None)

    def _header(self, value: bytes) -> tuple[str, ...] | str:
        """Return the names, or the reason why there are none."""
        if len(value) > BLOCK_BYTES:
            return f"{BAD_HEADER}:{OVERSIZED}"
        try:
            fields = self._splitter.split_one(value.decode())
        except UnicodeDecodeError:
            return f"{BAD_HEADER}:{INVALID_UTF8}"
        if fields is None:
            return f"{BAD_HEADER}:{MALFORMED_CSV}"
        names = tuple(name.strip() for name in fields if name and name.strip())
        problem = header_problem(names, len(fields), self._known or ())
        return names if problem is None else f"{BAD_HEADER}:{problem}"


def _without_first(records: FileRecords) -> FileRecords:
    (source,) = records.sources
    return FileRecords.of(source, records.values.slice(1), records.lines.slice(1))


def header_problem(names: Collection[str], fields: int, known: Collection[str]) -> str | None:
    """Return why the fields of a first line cannot name columns; None if they can.

    Args:
        names: The fields that are not empty.
        fields: Number of fields.
        known: Names of columns in lower case.
    """
    if len(names) < fields:
        return "empty_name"
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"repeated_name:{name}"
        seen.add(name)
    if known and not any(name.lower() in known for name in names):
        return "no_known_name"
    return None
