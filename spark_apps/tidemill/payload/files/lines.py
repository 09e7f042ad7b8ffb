"""Cut text files into lines, and JSON files into objects. Pure except for the reads of the file.

A line ends with a line feed, a carriage return or both, as for Spark's readers, or with the separator that
`lineSep` declares. A range has the lines that begin in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.records import Cut, CutBuffer, FileRecords

# Bytes that are read at once to find the end of a line.
_LOOK_BYTES = 64 * 2**10

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"


def cut_lines(separator: bytes | None) -> CutBuffer:
    """Return a function that cuts a buffer into lines.

    Args:
        separator: End of a line; None for any line break.
    """
    mark = b"\n" if separator is None else separator

    def cut(buffer: bytes, is_last: bool) -> Cut:
        text, end = buffer, len(buffer)
        if not is_last:
            end = last_break(buffer, separator)
            text = buffer[:end]
        if separator is None and b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if text and not text.endswith(mark):
            text += mark
        values = _split(text, mark)
        return Cut(values, pa.arange(0, len(values)), end, len(values))

    return cut


def last_break(buffer: bytes, separator: bytes | None) -> int:
    """Return where the last complete line ends; more bytes follow the buffer."""
    if separator is not None:
        return buffer.rfind(separator) + len(separator) if separator in buffer else 0
    # A carriage return at the end may be the first half of a line break.
    return max(buffer.rfind(b"\n"), buffer.rfind(b"\r", 0, len(buffer) - 1)) + 1


def _split(text: bytes, mark: bytes) -> pa.BinaryArray:
    """Return the text before each mark; a mark ends the text."""
    if not text:
        return pa.array([], pa.binary())
    return pc.split_pattern(pa.array([text], pa.binary()), mark).values[:-1]


def line_start(source: FileRange, position: int, separator: bytes | None) -> int:
    """Return the first byte of the first line at or after a position, or the end of the file."""
    if position == 0:
        return 0
    mark = separator or b"\n"
    look = max(0, position - len(mark))
    carried = b""
    while look < source.size:
        block = carried + source.content.read(look, _LOOK_BYTES)
        begin = look - len(carried)
        found = _first_break(block, separator, is_last=begin + len(block) >= source.size)
        if found:
            return begin + found
        carried = block[-len(mark) :]
        look = begin + len(block)
    return source.size


def _first_break(block: bytes, separator: bytes | None, *, is_last: bool) -> int:
    """Return the byte after the first line break of a block; 0 if there is no complete one."""
    if separator is not None:
        place = block.find(separator)
        return place + len(separator) if place >= 0 else 0
    places = [place for place in (block.find(b"\n"), block.find(b"\r")) if place >= 0]
    if not places:
        return 0
    first = min(places)
    if block[first] == ord("\r"):
        if first + 1 == len(block) and not is_last:
            return 0
        return first + 2 if block[first + 1 : first + 2] == b"\n" else first + 1
    return first + 1


def lines_before(source: FileRange, end: int, separator: bytes | None) -> int:
    """Return the number of lines that end before a byte at which a line begins."""
    if end == 0:
        return 0
    count, carried = 0, b""
    for block in source.blocks(0, end):
        buffer = carried + block
        done = buffer[: last_break(buffer, separator)]
        count += _count(done, separator)
        carried = buffer[len(done) :]
    return count + _count(carried, separator)


def _count(text: bytes, separator: bytes | None) -> int:
    if separator is not None:
        return text.count(separator)
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def json_documents(source: FileRange, text: bytes) -> Iterator[FileRecords]:
    """Yield the objects of a whole file: either in sequence, or as the items of one array.

    After the first text that is not JSON, the rest is one record.
    """
    # Bytes that are not UTF-8 stay in the record, which the decoder rejects.
    content = text.decode("utf-8", "surrogateescape")
    values: list[bytes] = []
    lines: list[int] = []
    line, counted = 1, 0
    for start, end in _extents(content):
        line, counted = line + content.count("\n", counted, start), start
        values.append(content[start:end].encode("utf-8", "surrogateescape"))
        lines.append(line)
    yield FileRecords.of(source, pa.array(values, pa.binary()), pa.array(lines, pa.int64()))


def _extents(content: str) -> Iterator[tuple[int, int]]:
    """Yield the first character of each document, and the character after its last."""
    place = _after_blanks(content, 0)
    is_list = content.startswith("[", place)
    if is_list:
        place = _after_blanks(content, place + 1)
    while place < len(content):
        if is_list and content.startswith("]", place):
            # Only blanks may follow; otherwise the rest is a record that is not JSON.
            is_list, place = False, _after_blanks(content, place + 1)
            continue
        try:
            _, end = _DECODER.raw_decode(content, place)
        except (ValueError, RecursionError):
            yield place, len(content)
            return
        yield place, end
        place = _after_blanks(content, end)
        if is_list and content.startswith(",", place):
            place = _after_blanks(content, place + 1)


def _after_blanks(content: str, place: int) -> int:
    while place < len(content) and content[place] in _BLANK:
        place += 1
    return place
