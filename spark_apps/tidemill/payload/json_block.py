"""Decode many framed records in one call of `pyarrow.json`, and remove records that make the block fail.

`pyarrow.json` alone decides what is accepted, and every decoded value: a record is good if it decodes alone.
A block decodes if all its records do, and to the same values, because with an explicit schema nothing that
the parser keeps from one row changes how it reads the next (tests: `test_json_decoder_properties.py`). So the
whole block is tried first. A failed block loses its bad records by remedies, cheapest first, until it
decodes.

Before that, records with a decimal that `pyarrow.json` would misread are dropped (`decimals.py`). Each remedy
also tries a refused record with its integers respelled for `pyarrow.json` (`whole_numbers.py`); a record that
is good in this form keeps it.

0. respelled: `1.0` after the name of an integer becomes `1` in all records, with one regular expression.
1. undeclared: for a closed decoder, all names and declared names are counted.
2. hinted: a regular expression made from the schema finds values of the wrong type; `explain` proves it.
3. located: pyarrow names the row where parsing failed. It fails before the next row begins, so that record
   fails alone too. This is cheap for a few rows, not for many.
4. explained: `explain` checks every record.
5. halved: halves of the block are tried down to single records. This always ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidemill.errors import InternalError
from tidemill.payload.decimals import risky_json
from tidemill.payload.json_explain import OTHERWISE_SPELLED, Expected, explain
from tidemill.payload.sieve import Sieve
from tidemill.payload.whole_numbers import with_whole_numbers

NOT_DECODABLE = "not_decodable"
UNDECLARED = "undeclared"

# A name as most producers write it. If there is a blank before the colon, other remedies find what this one
# misses.
_NAME_END = '":'

_FAILED_ROW = re.compile(r" in row (\d+)$")

# Share of failing records up to which locating rows is cheaper than explaining all: a call costs about 0.12
# ms, explaining a record about 0.005 ms (tests/bench/json_decoder.py).
_RECORDS_PER_LOCATED_ROW = 32

# Start of a value that cannot have the type; `n` begins null.
_WRONG_START_BY_KIND = {
    "string": r'[^"n\s]',
    "integer": r"(?:[^-0-9n\s]|-?\d+[.eE]|-?\d{19})",
    "number": r"[^-0-9n\s]",
    "boolean": r"[^tfn\s]",
    "decimal": r'[^-0-9"n\s]',
    "array": r"[^\[n\s]",
    "object": r"[^{n\s]",
}


@dataclass(frozen=True)
class _Respelled:
    """A record in a form that `pyarrow.json` reads.

    Args:
        text: The form.
    """

    text: str


# Reasons of records to drop, or their new forms, by offset.
_Verdicts = dict[int, str | _Respelled]


class BlockDecoder:
    """Decodes framed records into the columns of `schema`, whose timestamps are still strings.

    Args:
        schema: The columns.
        is_closed: True to refuse a record with an undeclared name at any depth. In the same block, records
            that only seem to have such a name may also be refused.
    """

    def __init__(self, schema: pa.Schema, *, is_closed: bool = False) -> None:
        self._schema = schema
        unexpected = "error" if is_closed else "ignore"
        self._parse_options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
        self._expected = Expected.of(pa.struct(schema), is_closed=is_closed)
        self._risky = _risky_decimals_pattern(schema)
        self._hint = _wrong_type_pattern(self._expected)
        self._integer_with_zeros = _integer_with_zeros_pattern(self._expected)
        self._declared_name = _declared_name_pattern(self._expected) if is_closed else None

    def decode(self, sieve: Sieve) -> pa.RecordBatch:
        """Return the decoded records. Records that do not decode are rejected and leave the sieve."""
        remedies: tuple[Callable[[pa.StringArray], _Verdicts], ...]
        remedies = (self._undeclared, self._hinted, self._located, self._explained, self._halved)
        _carry_out(self._misread(sieve.records), sieve)
        parsed = self._parsed(sieve.records)
        if parsed is None and self._respell(sieve):
            parsed = self._parsed(sieve.records)
        for remedy in remedies:
            if parsed is not None:
                return parsed
            verdicts = remedy(sieve.records)
            if verdicts:
                _carry_out(verdicts, sieve)
                parsed = self._parsed(sieve.records)
        if parsed is not None:
            return parsed
        raise InternalError("TIDE-PAY-001", "A block fails although each of its records decodes.")

    def _parsed(self, texts: pa.StringArray) -> pa.RecordBatch | None:
        """Return the rows; None if a record does not decode."""
        try:
            return self._parse(texts)
        except pa.ArrowInvalid:
            return None

    def _parse(self, texts: pa.StringArray) -> pa.RecordBatch:
        """Decode all, or raise ArrowInvalid."""
        if len(texts) == 0:
            return pa.RecordBatch.from_pylist([], self._schema)
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")
        block = joined[0].as_buffer()
        # One pyarrow block has all records, so the text is parsed in one piece.
        read_options = pj.ReadOptions(use_threads=False, block_size=block.size + 1)
        table = pj.read_json(pa.BufferReader(block), read_options, self._parse_options)
        if table.num_rows != len(texts):
            raise pa.ArrowInvalid(f"{len(texts)} records gave {table.num_rows} rows")
        return table.combine_chunks().to_batches()[0]

    def _respell(self, sieve: Sieve) -> bool:
        """Respell the most frequent form of an integer with a fraction; return False if no record has it."""
        if self._integer_with_zeros is None:
            return False
        # Before a colon, two quotes enclose only a name, so no string is changed.
        respelled = pc.replace_substring_regex(sieve.records, self._integer_with_zeros, r"\1\2")
        found = not respelled.equals(sieve.records)
        sieve.records = respelled
        return found

    def _misread(self, texts: pa.StringArray) -> _Verdicts:
        return {} if self._risky is None else self._suspected(texts, self._risky, NOT_DECODABLE)

    def _hinted(self, texts: pa.StringArray) -> _Verdicts:
        return self._suspected(texts, self._hint)

    def _suspected(self, texts: pa.StringArray, hint: str, unreadable: str | None = None) -> _Verdicts:
        suspects = pc.indices_nonzero(pc.match_substring_regex(texts, hint))
        return self._proven(suspects, texts.take(suspects), unreadable)

    def _undeclared(self, texts: pa.StringArray) -> _Verdicts:
        """Refuse records with more names than declared ones; a closed decoder's caller checks them again."""
        if self._declared_name is None:
            return {}
        names = pc.count_substring(texts, _NAME_END)
        more = pc.greater(names, pc.count_substring_regex(texts, self._declared_name))
        return dict.fromkeys(pc.indices_nonzero(more).to_pylist(), UNDECLARED)

    def _explained(self, texts: pa.StringArray) -> _Verdicts:
        return self._proven(pa.arange(0, len(texts)), texts)

    def _proven(self, offsets: pa.Array, texts: pa.StringArray, unreadable: str | None = None) -> _Verdicts:
        pairs = zip(offsets.to_pylist(), texts.to_pylist(), strict=True)
        verdicts = ((offset, self._explain(text, unreadable)) for offset, text in pairs)
        return {offset: verdict for offset, verdict in verdicts if verdict is not None}

    def _explain(self, text: str, unreadable: str | None) -> str | _Respelled | None:
        """Return the verdict on a record; None if nothing is proven."""
        reason = explain(text, self._expected, unreadable)
        return _Respelled(with_whole_numbers(text)) if reason == OTHERWISE_SPELLED else reason

    def _located(self, texts: pa.StringArray) -> _Verdicts:
        failed: _Verdicts = {}
        start = 0
        while start < len(texts) and len(failed) <= len(texts) // _RECORDS_PER_LOCATED_ROW:
            row = self._failed_row(texts.slice(start))
            if row is None:
                break
            failed[start + row] = self._judged(texts[start + row].as_py())
            start += row + 1
        return failed

    def _failed_row(self, texts: pa.StringArray) -> int | None:
        """Return the first row that does not parse; None if all do, or if pyarrow does not name it."""
        try:
            self._parse(texts)
        except pa.ArrowInvalid as error:
            found = _FAILED_ROW.search(str(error))
            return int(found.group(1)) if found else None
        return None

    def _halved(self, texts: pa.StringArray) -> _Verdicts:
        return {offset: self._judged(texts[offset].as_py()) for offset in self._failing(texts, 0)}

    def _failing(self, texts: pa.StringArray, start: int) -> Iterator[int]:
        try:
            self._parse(texts)
        except pa.ArrowInvalid:
            if len(texts) == 1:
                yield start
                return
            middle = len(texts) // 2
            yield from self._failing(texts.slice(0, middle), start)
            yield from self._failing(texts.slice(middle), start + middle)

    def _judged(self, text: str) -> str | _Respelled:
        """Return the verdict on a record that fails alone."""
        reason = explain(text, self._expected)
        if reason not in (None, OTHERWISE_SPELLED):
            return reason
        respelled = with_whole_numbers(text)
        decodes = self._parsed(pa.array([respelled], pa.string())) is not None
        return _Respelled(respelled) if decodes else NOT_DECODABLE


def _carry_out(verdicts: _Verdicts, sieve: Sieve) -> None:
    respelled = {
        place: verdict.text for place, verdict in verdicts.items() if isinstance(verdict, _Respelled)
    }
    if respelled:
        places = sorted(respelled)
        mask = pc.is_in(pa.arange(0, len(sieve.records)), value_set=pa.array(places, pa.int64()))
        texts = pa.array([respelled[place] for place in places], sieve.records.type)
        sieve.records = pc.replace_with_mask(sieve.records, mask, texts)
    sieve.drop({place: verdict for place, verdict in verdicts.items() if isinstance(verdict, str)})


def _wrong_type_pattern(expected: Expected) -> str:
    """Return a pattern for a text in which a declared name is followed by a value of another type.

    It is only a hint: names inside strings, escaped names, items of lists and names declared with two types
    cause false matches and misses.
    """
    kinds = dict.fromkeys(kind for _, kind in _declared(expected))
    return "|".join(f"{_names_of(expected, kind)}{_WRONG_START_BY_KIND[kind]}" for kind in kinds)


def _integer_with_zeros_pattern(expected: Expected) -> str | None:
    """Return a pattern for an int64 integer with a fraction of zeros, including the next character."""
    if all(kind != "integer" for _, kind in _declared(expected)):
        return None
    return rf"({_names_of(expected, 'integer')}-?(?:0|[1-9]\d{{0,17}}))\.0+([\s,}}])"


def _names_of(expected: Expected, kind: str) -> str:
    """Return a pattern for a name of this kind up to its value."""
    names = {name for name, other in _declared(expected) if other == kind}
    spelled = "|".join(sorted(re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in names))
    return rf'"(?:{spelled})"\s*:\s*'


def _risky_decimals_pattern(schema: pa.Schema) -> str | None:
    scales = [kind.scale for kind in _leaf_types(pa.struct(schema)) if pa.types.is_decimal(kind)]
    return risky_json(max(scales)) if scales else None


def _leaf_types(declared: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(declared):
        yield declared
        return
    for number in range(declared.num_fields):
        yield from _leaf_types(declared.field(number).type)


def _declared_name_pattern(expected: Expected) -> str:
    """Return a pattern for a declared name of any depth."""
    spelled = sorted({re.escape(json.dumps(name, ensure_ascii=False)) for name, _ in _declared(expected)})
    return rf"(?:{'|'.join(spelled)}):"


def _declared(expected: Expected) -> Iterator[tuple[str, str]]:
    """Yield name and kind of every property, at any depth."""
    if expected.item is not None:
        yield from _declared(expected.item)
    for name, inner in expected.properties.items():
        yield name, inner.kind
        yield from _declared(inner)
