"""A file of CSV is cut into its records. Pure.

A record is a line. One with an open quote goes on in the next lines, until a quote closes it, if that is CSV,
however long it is and however many fields it has: lines in quotes are text and never records. Else the line
is broken by itself and the next one begins anew. So a quote that stands somewhere by mistake costs its own
line, not the rest of the file. Blank lines are no records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import NamedTuple

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvRecord(NamedTuple):
    """A record as it stands in its file, without the line break at its end.

    Args:
        line: Number of its first line, from 1.
        value: The bytes.
    """

    line: int
    value: bytes


def cut(content: bytes, is_csv: Callable[[bytes], bool]) -> Iterator[CsvRecord]:
    """The records of a file, in order.

    Args:
        content: The file; a byte order mark in front is left out.
        is_csv: Whether several lines are one record, of any width.
    """
    lines = _Lines(BytesIO(content.removeprefix(_BYTE_ORDER_MARK)))
    number = 0
    while (first := lines.take()) is not None:
        number += 1
        whole, more = _closed(first, lines, is_csv) if first.count(b'"') % 2 else (first, 0)
        for _ in range(more):
            lines.take()
        value = _without_break(whole)
        if value:
            yield CsvRecord(number, value)
        number += more


class _Lines:
    """Lines that can be looked at before they are taken."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._seen: deque[bytes] = deque()

    def take(self) -> bytes | None:
        return self._seen.popleft() if self._seen else next(self._lines, None)

    def ahead(self) -> Iterator[bytes]:
        yield from self._seen.copy()
        for line in self._lines:
            self._seen.append(line)
            yield line


def _closed(first: bytes, lines: _Lines, is_csv: Callable[[bytes], bool]) -> tuple[bytes, int]:
    """The record that a line with an open quote begins, and how many more lines it has.

    Lines are looked at once more than they are taken, however many quotes stand alone: each look ends at the
    next one.
    """
    whole = [first]
    for line in lines.ahead():
        whole.append(line)
        if line.count(b'"') % 2:
            record = b"".join(whole)
            return (record, len(whole) - 1) if is_csv(_without_break(record)) else (first, 0)
    return first, 0


def _without_break(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
