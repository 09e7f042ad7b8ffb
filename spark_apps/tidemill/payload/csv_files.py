"""Files of CSV whose columns are discovered: each record by the names of its own file's header, as JSON.

Columns are known by their names, never by their places: files may have them in another order, or more, or
fewer. What becomes of each value then is the matter of the one decoder of JSON lines (`rescue.py`).

| in the file                                                        | result                              |
|--------------------------------------------------------------------|-------------------------------------|
| a file without a record, also without a header                     | nothing                             |
| a header with an empty name                                        | every record `bad_header:empty_name` |
| a name twice                                                       | `bad_header:repeated_name:<name>`   |
| no name of the columns that are known, in any case: most likely no header | `bad_header:no_known_name`   |
| one that is no UTF-8, no CSV, or too long                          | `bad_header:` and that reason       |
| more or fewer fields than the header, no CSV, no UTF-8, too long   | the reasons of `csv_decoder.py`     |
| a blank line                                                       | no record                           |

Of a file with a bad header every record is rejected, and that line, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.csv_cut import CsvRecord, cut
from tidemill.payload.csv_fields import MALFORMED_CSV, CsvSplitter
from tidemill.payload.csv_values import CsvValues
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.inferred_schema import Node
from tidemill.payload.readable import INVALID_UTF8, OVERSIZED, drop_invalid_utf8, drop_null_and_oversized
from tidemill.payload.sieve import Sieve

BAD_HEADER = "bad_header"

# Bytes of records that are read at once, and of names that they repeat as JSON. A character can take six
# times its space there, which stays below what the decoder takes in one piece.
PIECE_BYTES = MAX_BLOCK_BYTES // 16


@dataclass(frozen=True)
class CsvForm:
    """What decides how a file is read beside its columns.

    Args:
        separator: Between two fields.
        hinted: Columns whose type was not inferred, in order.
    """

    separator: str
    hinted: tuple[str, ...] = ()


@dataclass(frozen=True)
class CsvPiece:
    """Some records of one file.

    Args:
        values: As they stand there.
        lines: Number of the first line of each, from 1.
        texts: As JSON; null where it is none.
        reasons: Why, by place.
    """

    values: pa.BinaryArray
    lines: pa.Int64Array
    texts: pa.StringArray
    reasons: Mapping[int, str]


class CsvFiles:
    """Reads files.

    Args:
        form: How they are written.
        columns: What is known of their columns, as JSON Schema.
    """

    def __init__(self, form: CsvForm, columns: Node) -> None:
        self._splitter = CsvSplitter(form.separator)
        self._values = CsvValues(columns, form.hinted)
        self._known = frozenset(name.lower() for name in columns["properties"])

    def pieces(self, content: bytes) -> Iterator[CsvPiece]:
        """The records of a file."""
        names: list[str] = []
        records = cut(content, self._is_csv)
        header = next(records, None)
        if header is None:
            return
        found = self._header(header.value)
        if isinstance(found, str):
            yield from _rejected(chain([header], records), found)
            return
        names += found
        for some in _in_pieces(records, len(header.value)):
            yield self._piece(some, names)

    def _is_csv(self, value: bytes) -> bool:
        """Whether these lines are one record; one that is no UTF-8, too, is then rejected as a whole."""
        return self._splitter.split_one(value.decode("utf-8", "replace")) is not None

    def _header(self, value: bytes) -> list[str] | str:
        """The names, or why there are none."""
        if len(value) > PIECE_BYTES:
            return f"{BAD_HEADER}:{OVERSIZED}"
        try:
            fields = self._splitter.split_one(value.decode())
        except UnicodeDecodeError:
            return f"{BAD_HEADER}:{INVALID_UTF8}"
        if fields is None:
            return f"{BAD_HEADER}:{MALFORMED_CSV}"
        names = [name for name in fields if name]
        problem = header_problem(names, len(fields), self._known)
        return names if problem is None else f"{BAD_HEADER}:{problem}"

    def _piece(self, records: list[CsvRecord], names: list[str]) -> CsvPiece:
        values = pa.array([record.value for record in records], pa.binary())
        sieve = Sieve(values)
        drop_null_and_oversized(sieve, PIECE_BYTES)
        drop_invalid_utf8(sieve)
        fields = self._splitter.fields(sieve, len(names))
        places = pc.index_in(pa.arange(0, len(values)), value_set=sieve.positions)
        texts = self._values.lines(names, fields).take(places)
        reasons = dict(zip(*sieve.fallen(), strict=True))
        return CsvPiece(values, _lines(records), texts, reasons)


def header_problem(names: Collection[str], fields: int, known: Collection[str]) -> str | None:
    """Why the fields of a first line cannot name columns; None if they can.

    Args:
        names: The fields that are not empty.
        fields: How many there are.
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


def _rejected(records: Iterable[CsvRecord], reason: str) -> Iterator[CsvPiece]:
    for some in _in_pieces(records, 0):
        values = pa.array([record.value for record in some], pa.binary())
        nothing = pa.nulls(len(some), pa.string())
        yield CsvPiece(values, _lines(some), nothing, dict.fromkeys(range(len(some)), reason))


def _in_pieces(records: Iterable[CsvRecord], names_bytes: int) -> Iterator[list[CsvRecord]]:
    """At most so many records that they and the names beside them do not take too much; one at least."""
    some: list[CsvRecord] = []
    size = 0
    for record in records:
        more = len(record.value) + names_bytes
        if some and size + more > PIECE_BYTES:
            yield some
            some, size = [], 0
        some.append(record)
        size += more
    if some:
        yield some


def _lines(records: list[CsvRecord]) -> pa.Int64Array:
    return pa.array([record.line for record in records], pa.int64())
