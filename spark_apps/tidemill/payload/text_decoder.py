"""Decode text records. Rejected: `null_value`, too long (`oversized`), not UTF-8 (`invalid_utf8`)."""

from __future__ import annotations

import pyarrow as pa

from tidemill.payload.decoder import Decoded, check_record_limit, decode_in_pieces
from tidemill.payload.readable import drop_invalid_utf8, drop_null_and_oversized
from tidemill.payload.sieve import Sieve

_VALUE = pa.schema([("value", pa.string())])


class TextDecoder:
    """Each record becomes one row.

    Args:
        max_record_bytes: A longer record is refused.
        columns: The text is the first of these columns. The others are null.
    """

    def __init__(self, max_record_bytes: int, columns: pa.Schema = _VALUE) -> None:
        self._max_record_bytes = check_record_limit(max_record_bytes)
        self.columns = columns

    def decode(self, values: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """Decode every record or give a reason; never raises because of a record."""
        return decode_in_pieces(values, self._sift)

    def _sift(self, values: pa.Array) -> tuple[pa.RecordBatch, Sieve]:
        sieve = Sieve(values)
        drop_null_and_oversized(sieve, self._max_record_bytes)
        drop_invalid_utf8(sieve)
        texts, *others = self.columns
        empty = [pa.nulls(len(sieve.records), column.type) for column in others]
        return pa.RecordBatch.from_arrays(
            [sieve.records.cast(texts.type), *empty], schema=self.columns
        ), sieve
