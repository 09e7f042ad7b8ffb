r"""Decode CSV records to typed columns, or reject them with a reason. A record is one line after RFC 4180.

Fields are those of the schema, in order. In a file with a header, they are those that the header names.

| record                                                     | result                                        |
|------------------------------------------------------------|-----------------------------------------------|
| null; longer than the limit; not UTF-8                     | `null_value`; `oversized`; `invalid_utf8`     |
| a line break at its end                                    | is left out                                   |
| another line break outside of quotes                       | `malformed_csv`                               |
| a quote inside of a field without quotes; text after one   | `malformed_csv`                               |
| more or fewer fields than the schema or the header has     | `wrong_field_count`                           |
| an empty field; an empty field in quotes                   | null; an empty text                           |
| `string`                                                   | the text, blanks included                     |
| `integer`: digits with or without `-`, within int64        | good; anything else `wrong_type:<field>`      |
| `number`: decimal digits, with or without an exponent      | good; anything else `wrong_type:<field>`      |
| `number`: NaN, Infinity, Inf, too large for float64        | `not_finite:<field>`, as for JSON             |
| `boolean`: `true`, `false`                                 | good; anything else `wrong_type:<field>`      |
| `date-time`, `date`                                        | as for JSON: `wrong_type`, `no_offset`        |
| a decimal with too many digits other than zeros            | before the point `out_of_range:<field>`,      |
|                                                            | after it `wrong_type:<field>`                 |
| a required field that is empty, unless it may be null      | `missing_required:<field>`                    |
| a condition of the schema                                  | as for JSON: `breaks_minimum:<field>`         |

A quoted field may contain separators, line breaks, and a quote written twice. There is no other escape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import SpecError
from tidemill.payload.csv_fields import CsvDialect, CsvSplitter
from tidemill.payload.decimals import decimal_of, safe_text
from tidemill.payload.decoder import Decoded, check_record_limit, decode_in_pieces
from tidemill.payload.json_rules import apply_rules, textual_schema
from tidemill.payload.json_schema import PayloadSchema
from tidemill.payload.readable import drop_invalid_utf8, drop_null_and_oversized
from tidemill.payload.schema_conditions import Conditions
from tidemill.payload.sieve import Sieve

_INTEGER = r"^-?\d+$"
_NUMBER = r"^-?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|NaN|Infinity|Inf)$"
_DECIMAL = r"^-?(?:\d+\.?\d*|\.\d+)$"


class CsvDecoder:
    """Decodes arrays of CSV records.

    Args:
        schema: The fields, in order.
        dialect: The form of the fields.
        max_record_bytes: A longer record is refused before it is parsed.

    Raises:
        SpecError: TIDE-SPEC-060, if one line cannot store a field.
    """

    def __init__(self, schema: PayloadSchema, dialect: CsvDialect, max_record_bytes: int) -> None:
        for field in schema.arrow_schema:
            if pa.types.is_nested(field.type):
                raise SpecError(
                    "TIDE-SPEC-060",
                    "A CSV record has no field that holds other fields.",
                    facts={"schema": schema.name, "at": field.name, "type": field.type},
                    fix="declare plain fields, or send JSON or Avro",
                )
        # An empty field exists and is null, so a nullable field cannot be missing.
        missing = tuple(path for path in schema.required if path not in schema.required_nullable)
        self.schema = schema
        self._schema = replace(schema, required=missing, required_nullable=frozenset())
        self._textual = textual_schema(schema.arrow_schema)
        self._conditions = Conditions.of(schema)
        self._splitter = CsvSplitter(dialect)
        self._max_record_bytes = check_record_limit(max_record_bytes)

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the schema."""
        return self._schema.arrow_schema

    @property
    def splitter(self) -> CsvSplitter:
        """Splits a record into its fields."""
        return self._splitter

    def decode(
        self, values: pa.BinaryArray | pa.LargeBinaryArray, names: Sequence[str] | None = None
    ) -> Decoded:
        """Decode every record or give a reason; never raises because of a record.

        Args:
            values: The records.
            names: Names of their fields, if there is a header. A column without a field of its name is null;
                a field without a column of its name is left out.
        """
        return decode_in_pieces(values, lambda piece: self._sift(piece, names))

    def _sift(self, values: pa.Array, names: Sequence[str] | None) -> tuple[pa.RecordBatch, Sieve]:
        # The order of these steps is the precedence of the reasons.
        sieve = Sieve(values)
        drop_null_and_oversized(sieve, self._max_record_bytes)
        drop_invalid_utf8(sieve)
        typed, wrong = _typed(self._fields(sieve, names), self._textual)
        stays = sieve.drop(wrong)
        typed = typed if stays is None else typed.filter(stays)
        rows, broken = apply_rules(typed, sieve.records, self._schema)
        stays = sieve.drop(broken)
        if stays is not None:
            typed, rows = typed.filter(stays), rows.filter(stays)
        if self._conditions is not None:
            stays = sieve.drop(self._conditions.broken_rows(typed))
            rows = rows if stays is None else rows.filter(stays)
        return rows, sieve

    def _fields(self, sieve: Sieve, names: Sequence[str] | None) -> list[pa.StringArray]:
        """Return one array of texts for each column; records with other fields are dropped from the sieve."""
        sieve.records = pc.replace_substring_regex(sieve.records, r"\r?\n\z", "")
        if names is None:
            return self._splitter.fields(sieve, len(self._textual))
        places = field_places(self._textual.names, names)
        fields = self._splitter.fields(sieve, len(names))
        empty = pa.nulls(len(sieve.records), pa.string())
        return [empty if place is None else fields[place] for place in places]


def _typed(texts: Sequence[pa.StringArray], textual: pa.Schema) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Return the fields in their types (instants still as texts), and the rows with a wrong value."""
    wrong: dict[int, str] = {}
    columns = []
    for field, column in zip(textual, texts, strict=True):
        typed = _parse(column, field.type)
        if typed.null_count != column.null_count:
            for row in pc.indices_nonzero(pc.and_(column.is_valid(), typed.is_null())).to_pylist():
                wrong.setdefault(row, f"wrong_type:{field.name}")
        columns.append(typed)
    return pa.RecordBatch.from_arrays(columns, schema=textual), wrong


def typed_texts(
    texts: Sequence[pa.StringArray], schema: PayloadSchema
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Return texts of fields in the types of a schema, and the reasons of rows where one does not fit.

    Args:
        texts: An array for each column.
        schema: The columns.
    """
    typed, wrong = _typed(texts, textual_schema(schema.arrow_schema))
    rows, broken = apply_rules(typed, texts[0], schema)
    return rows, {**broken, **wrong}


def field_places(columns: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """Return the position of each column among the names of a header; None for a missing column.

    A name in another case counts if the column has no other match.
    """
    exact = {name: place for place, name in enumerate(names)}
    folded: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        folded.setdefault(name.lower(), []).append(place)
    places: list[int | None] = []
    for column in columns:
        alike = folded.get(column.lower(), [])
        places.append(exact.get(column, alike[0] if len(alike) == 1 else None))
    return places


def _parse(texts: pa.StringArray, declared: pa.DataType) -> pa.Array:
    """Parse the texts; invalid texts become null."""
    if pa.types.is_string(declared):
        return texts
    if pa.types.is_boolean(declared):
        is_true, is_false = pc.equal(texts, "true"), pc.equal(texts, "false")
        return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))
    if pa.types.is_decimal(declared):
        return _decimals(_matching(texts, _DECIMAL), declared)
    is_integer = pa.types.is_integer(declared)
    if (plain := _plain_numbers(texts, declared)) is not None:
        return plain
    known = _matching(texts, _INTEGER if is_integer else _NUMBER)
    try:
        return known.cast(declared)
    except pa.ArrowInvalid:
        # One number is too large for the type.
        read = _integer if is_integer else float
        return pa.array([None if text is None else read(text) for text in known.to_pylist()], declared)


def _plain_numbers(texts: pa.StringArray, declared: pa.DataType) -> pa.Array | None:
    """Return the values if every text is plain, which is faster to check; None otherwise."""
    if pa.types.is_integer(declared):
        if pc.all(pc.ascii_is_decimal(texts)).as_py() is False:
            return None
    elif pc.any(pc.starts_with(texts, "+")).as_py():
        return None
    try:
        values = texts.cast(declared)
    except pa.ArrowInvalid:
        return None
    # Arrow accepts more spellings of NaN and infinity.
    is_finite = pa.types.is_integer(declared) or pc.all(pc.is_finite(values)).as_py() is not False
    return values if is_finite else None


def _decimals(texts: pa.StringArray, declared: pa.Decimal128Type) -> pa.Array:
    try:
        if pc.all(pc.match_substring_regex(texts, safe_text(declared.scale))).as_py() is not False:
            return texts.cast(declared)
    except pa.ArrowInvalid:
        pass
    # One number has too many digits.
    read = [None if text is None else decimal_of(text, declared) for text in texts.to_pylist()]
    return pa.array(read, declared)


def _matching(texts: pa.StringArray, pattern: str) -> pa.StringArray:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def _integer(digits: str) -> int | None:
    # Python refuses to parse thousands of digits, but leading zeros are no reason to reject.
    significant = digits.lstrip("-").lstrip("0")
    if len(significant) > 19:
        return None
    value = int(significant or "0") * (-1 if digits.startswith("-") else 1)
    return value if -(2**63) <= value < 2**63 else None
