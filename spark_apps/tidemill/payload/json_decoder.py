r"""Decode JSON records to typed columns, or reject them with a reason, in every mode and for every writer.

The result for a record depends only on the record and the schema, never on its neighbours, on the batch size
or on the mode. `pyarrow.json` decodes whole blocks of records (`json_block.py`). `json_framing.py` explains
why a block's rows match its records.

What is accepted and refused (pinned by `tests/unit/payload/test_json_semantics.py`):

| record                                                         | result                                    |
|----------------------------------------------------------------|-------------------------------------------|
| null; longer than the limit; not UTF-8                         | `null_value`; `oversized`; `invalid_utf8` |
| empty or blank; an array, number, string or `null`             | `empty`; `not_an_object`                  |
| not JSON; two objects; a byte order mark in front              | `malformed_json`                          |
| a raw control character in a string; half a surrogate; NUL     | `malformed_json`                          |
| blanks and line breaks around it and between its tokens        | good                                      |
| `\u0000` in a string                                           | good, the string holds U+0000             |
| a declared name twice in one object                            | `duplicate_field:<path>`                  |
| an undeclared name, also twice, any value, any depth           | ignored                                   |
| a name in another case (`Id` for `id`)                         | undeclared                                |
| a value of another JSON type (`"1"` or `true` for 1)           | `wrong_type:<path>`                       |
| integer: `-0`, the ends of int64                               | good                                      |
| integer: `1.0`, `-2.50e1`, `1E2`, as JSON Schema says          | good, by its value                        |
| integer: beyond int64; `1.5`, `1e30`                           | `wrong_type:<path>`                       |
| number: `1`, `-0`, 30 digits, `1e-400`                         | 1.0, -0.0, the nearest, 0.0               |
| number: `NaN`, `Infinity`, `Inf`, with or without `-`          | `not_finite:<path>`                       |
| number: too large for float64 (`2e308`, 400 digits)            | `not_finite:<path>`                       |
| the same with `x-allow-non-finite`                             | NaN or infinity                           |
| any nonzero number except a decimal with an exponent above 308 | `not_decodable`                           |
| date-time that is not an instant (`timestamps.py`)             | `wrong_type:<path>`                       |
| date-time without offset; the same with `x-allow-no-offset`    | `no_offset:<path>`; taken as UTC          |
| date that is not in the calendar                               | `wrong_type:<path>`                       |
| a map: a name twice, a value of another type, NaN              | the same reasons with `<path>[]`          |
| decimal: a number or a string with digits                      | good, exactly                             |
| decimal: more digits than declared that are not zeros          | `out_of_range:<path>`                     |
| required and missing, or null where the type forbids it        | `missing_required:<path>`                 |
| a condition of the schema: `minimum`, `enum`, `if` and others  | `breaks_minimum:<path>`                   |

A record has one reason, from the first failed step: null, size, encoding, braces, JSON and types
(`malformed_json`, `duplicate_field`, `wrong_type`), instants and numbers, required fields, conditions. Within
a step, the schema's order counts.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.payload.decoder import Decoded, check_record_limit, decode_in_pieces
from tidemill.payload.json_block import BlockDecoder
from tidemill.payload.json_framing import frame
from tidemill.payload.json_maps import MapReader
from tidemill.payload.json_rules import apply_rules, textual_schema
from tidemill.payload.json_schema import PayloadSchema
from tidemill.payload.schema_conditions import Conditions
from tidemill.payload.sieve import Sieve


class JsonDecoder:
    """Decodes arrays of JSON records.

    Args:
        schema: Schema of a record.
        max_record_bytes: A longer record is refused before it is parsed; at most `MAX_BLOCK_BYTES`.
        is_closed: True to refuse a record with an undeclared name, as `undeclared`; not for maps. In the same
            block, records that only may have such a name can also be refused, so the caller must check them
            again.

    Raises:
        SpecError: TIDE-SPEC-025, if the limit is out of range; 070, if a condition of the schema is invalid.
    """

    def __init__(self, schema: PayloadSchema, max_record_bytes: int, *, is_closed: bool = False) -> None:
        self.schema = schema
        self._max_record_bytes = check_record_limit(max_record_bytes)
        self._maps = MapReader(textual_schema(schema.arrow_schema))
        self._blocks = BlockDecoder(self._maps.others, is_closed=is_closed)
        self._conditions = Conditions.of(schema)

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the schema."""
        return self.schema.arrow_schema

    def decode(self, values: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """Decode every record or give a reason; never raises because of a record."""
        return decode_in_pieces(values, self._sift)

    def _sift(self, values: pa.Array) -> tuple[pa.RecordBatch, Sieve]:
        # The order of these steps is the precedence of the reasons.
        sieve = Sieve(values)
        frame(sieve, self._max_record_bytes)
        parsed, reasons = self._maps.added(self._blocks.decode(sieve), sieve.records)
        stays = sieve.drop(reasons)
        parsed = parsed if stays is None else parsed.filter(stays)
        rows, reasons = apply_rules(parsed, sieve.records, self.schema)
        stays = sieve.drop(reasons)
        if stays is not None:
            parsed, rows = parsed.filter(stays), rows.filter(stays)
        if self._conditions is not None:
            stays = sieve.drop(self._conditions.broken_records(parsed, sieve.records))
            rows = rows if stays is None else rows.filter(stays)
        return rows, sieve
