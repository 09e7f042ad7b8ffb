"""Check a record before it is parsed: it exists, is not too long, and is text if it must be."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.sieve import Sieve

NULL_VALUE = "null_value"
OVERSIZED = "oversized"
INVALID_UTF8 = "invalid_utf8"


def drop_null_and_oversized(sieve: Sieve, max_record_bytes: int) -> None:
    """Drop records without a value, then those that are longer than the limit."""
    if sieve.records.null_count:
        sieve.drop_where(sieve.records.is_null(), NULL_VALUE)
    lengths = pc.binary_length(sieve.records)
    if (pc.max(lengths).as_py() or 0) > max_record_bytes:
        sieve.drop_where(pc.greater(lengths, max_record_bytes), OVERSIZED)


def drop_invalid_utf8(sieve: Sieve) -> None:
    """Drop records that are not UTF-8; the others become strings."""
    try:
        sieve.records = sieve.records.cast(pa.string())
    except pa.ArrowInvalid:
        records = sieve.records.to_pylist()
        sieve.drop({offset: INVALID_UTF8 for offset, record in enumerate(records) if not _is_utf8(record)})
        sieve.records = sieve.records.cast(pa.string())


def _is_utf8(record: bytes) -> bool:
    try:
        record.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
