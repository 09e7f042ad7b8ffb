"""Split CSV records into the texts of their fields, after RFC 4180. An empty field is null."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from tidemill.payload.sieve import Sieve

MALFORMED_CSV = "malformed_csv"
WRONG_FIELD_COUNT = "wrong_field_count"


@dataclass(frozen=True)
class CsvDialect:
    """The form of fields. The default is RFC 4180.

    Args:
        separator: Character between two fields.
        quote: Character around a field with separators or line breaks; empty if fields have no quotes.
        escape: Character before a quote inside of a quoted field. By default, a quote is written twice.
        null: Unquoted text of a field that means null; an empty field also means null.
        comment: Character at the beginning of a line that is not a record; empty if there are none.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    null: str = ""
    comment: str = ""


class CsvSplitter:
    """Splits records without the line break at their end.

    Args:
        dialect: CSV dialect of the fields.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self.dialect = dialect
        self._field = _field(dialect)
        self._doubtful = f"[{re.escape(dialect.quote)}\\r\\n]"
        # Arrow's reader splits records of RFC 4180 in the same way, but it also accepts an escape outside of
        # quotes.
        self._by_arrow = (
            _well_formed(dialect) if not dialect.escape and len(dialect.separator.encode()) == 1 else ""
        )
        # The escape sequence of one character inside of quotes.
        escape = dialect.escape or dialect.quote
        self._escaped = re.compile(f"{re.escape(escape)}(.)", re.DOTALL) if escape else None

    def fields(self, sieve: Sieve, width: int) -> list[pa.StringArray]:
        """Return one array of texts for each field. Records with another number of fields are dropped."""
        if self._by_arrow and len(sieve.records):
            doubtful = pc.indices_nonzero(pc.match_substring_regex(sieve.records, self._doubtful))
            good = pc.match_substring_regex(sieve.records.take(doubtful), self._by_arrow)
            malformed = doubtful.filter(pc.invert(good)).to_pylist()
            sieve.drop(dict.fromkeys(malformed, MALFORMED_CSV))
            if width > 1:
                # Arrow reads an empty record as nulls.
                sieve.drop_where(pc.equal(pc.binary_length(sieve.records), 0), WRONG_FIELD_COUNT)
            return self._fields_by_arrow(sieve, width, newlines=len(doubtful) > 0)
        lines = self._split(sieve.records)
        if lines.null_count:
            stays = lines.is_valid()
            sieve.drop_where(lines.is_null(), MALFORMED_CSV)
            lines = lines.filter(stays)
        counts = pc.not_equal(pc.list_value_length(lines), width)
        if pc.any(counts).as_py():
            sieve.drop_where(counts, WRONG_FIELD_COUNT)
            lines = lines.filter(pc.invert(counts))
        texts = lines.flatten()
        return [texts.take(pa.arange(place, len(texts), width)) for place in range(width)]

    def _fields_by_arrow(self, sieve: Sieve, width: int, *, newlines: bool) -> list[pa.StringArray]:
        """Return the fields of well-formed records. Records with another number of fields are dropped."""
        names = [str(place) for place in range(width)]
        if not len(sieve.records):
            return [pa.array([], pa.string()) for _ in names]
        others: list[int] = []

        def skip(row: pv.InvalidRow) -> str:
            # Counted from 1, including the first line.
            others.append(row.number - 2)
            return "skip"

        # A first line is needed, because the reader drops a byte order mark at the beginning.
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(sieve.records)], sieve.records), "\n")[0]
        content = self.dialect.separator.join(names).encode() + b"\n" + text.as_buffer().to_pybytes() + b"\n"
        table = pv.read_csv(
            pa.BufferReader(content),
            pv.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names, skip_rows=1),
            pv.ParseOptions(
                delimiter=self.dialect.separator,
                quote_char=self.dialect.quote or False,
                newlines_in_values=newlines,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            pv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.string()),
                null_values=["", self.dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        sieve.drop(dict.fromkeys(others, WRONG_FIELD_COUNT))
        return [column.combine_chunks() for column in table.columns]

    def is_record(self, value: bytes) -> bool:
        """Return True if some lines are one record, with any number of fields and in any encoding."""
        return self.split_one(value.decode("utf-8", "replace")) is not None

    def split_one(self, text: str) -> list[str | None] | None:
        """Return the fields of one record, which may have quotes; None if the text is not a CSV record."""
        fields: list[str | None] = []
        end = 0
        while (found := self._field.match(text, end)) is not None:
            quoted, plain, after = found.groups()
            fields.append(self._plain(plain) if quoted is None else self._unescaped(quoted))
            if not after:
                return fields
            end = found.end()
        return None

    def _plain(self, text: str) -> str | None:
        return None if text in ("", self.dialect.null) else text

    def _unescaped(self, text: str) -> str:
        return text if self._escaped is None else self._escaped.sub(r"\1", text)

    def _split(self, records: pa.StringArray) -> pa.ListArray:
        """Return the fields of each record; null if the text is not a CSV record."""
        doubtful = pc.match_substring_regex(records, self._doubtful)
        places = pc.indices_nonzero(doubtful)
        if len(places) == 0:
            return self._split_plain(records)
        plain = pc.indices_nonzero(pc.invert(doubtful))
        quoted = [self.split_one(text) for text in records.take(places).to_pylist()]
        lines = pa.concat_arrays(
            [self._split_plain(records.take(plain)), pa.array(quoted, pa.list_(pa.string()))]
        )
        return lines.take(pc.sort_indices(pa.concat_arrays([plain, places])))

    def _split_plain(self, records: pa.StringArray) -> pa.ListArray:
        lines = pc.split_pattern(records, self.dialect.separator)
        texts = lines.values
        is_null = pc.equal(texts, "")
        if self.dialect.null:
            is_null = pc.or_(is_null, pc.equal(texts, self.dialect.null))
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
        return pa.ListArray.from_arrays(lines.offsets, texts)


def _well_formed(dialect: CsvDialect) -> str:
    """Return a pattern that matches a whole record, which may have quotes."""
    between, quote = re.escape(dialect.separator), re.escape(dialect.quote)
    plain = rf"[^{quote}{between}\r\n]*"
    field = f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|{plain})" if quote else plain
    return rf"\A{field}(?:{between}{field})*\z"


def _field(dialect: CsvDialect) -> re.Pattern[str]:
    """Return a pattern of a field, with its quoted or unquoted text and the separator after it."""
    between, quote, escape = map(re.escape, (dialect.separator, dialect.quote, dialect.escape))
    # Possessive (`*+`), because backtracking for each character would take 100 times the memory of the field.
    if not quote:
        quoted = "(?!)()"
    elif escape and escape != quote:
        quoted = f"{quote}((?:[^{quote}{escape}]|{escape}.)*+){quote}"
    else:
        quoted = f"{quote}([^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+){quote}"
    return re.compile(rf"(?:{quoted}|([^{quote}{between}\r\n]*))({between}|\Z)", re.DOTALL)
