"""A record of CSV is split into the texts of its fields, after RFC 4180; null is a field that is empty."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.sieve import Sieve

MALFORMED_CSV = "malformed_csv"
WRONG_FIELD_COUNT = "wrong_field_count"


class CsvSplitter:
    """Splits records without the line break at their end.

    Args:
        separator: Between two fields.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._quoted_field = _quoted_field(separator)

    def fields(self, sieve: Sieve, width: int) -> list[pa.StringArray]:
        """One array of texts for each field; what has not so many falls out of the sieve."""
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

    def _split(self, records: pa.StringArray) -> pa.ListArray:
        """The fields of each record; null where it is no line of CSV."""
        doubtful = pc.match_substring_regex(records, r'["\r\n]')
        places = pc.indices_nonzero(doubtful)
        if len(places) == 0:
            return self._split_plain(records)
        plain = pc.indices_nonzero(pc.invert(doubtful))
        quoted = [self.split_one(text) for text in records.take(places).to_pylist()]
        lines = pa.concat_arrays(
            [self._split_plain(records.take(plain)), pa.array(quoted, pa.list_(pa.string()))]
        )
        return lines.take(pc.sort_indices(pa.concat_arrays([plain, places])))

    def split_one(self, text: str) -> list[str | None] | None:
        """The fields of one record, which may have quotes; None if it is no line of CSV."""
        fields: list[str | None] = []
        end = 0
        while (found := self._quoted_field.match(text, end)) is not None:
            quoted, plain, after = found.groups()
            fields.append((plain or None) if quoted is None else quoted.replace('""', '"'))
            if not after:
                return fields
            end = found.end()
        return None

    def _split_plain(self, records: pa.StringArray) -> pa.ListArray:
        lines = pc.split_pattern(records, self._separator)
        texts = lines.values
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        return pa.ListArray.from_arrays(lines.offsets, texts)


def _quoted_field(separator: str) -> re.Pattern[str]:
    """A field: its text in quotes, or its text without; and the separator after it, if there is one."""
    between = re.escape(separator)
    # Possessive (`*+`): a way back for each character would take 100 times the memory of the field.
    return re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{between}\r\n]*))({between}|\Z)')
