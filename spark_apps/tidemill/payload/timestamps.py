"""Parse texts to instants: `date-time` of RFC 3339, in microseconds UTC, a whole column at a time.

Some texts beyond RFC 3339 are accepted: a blank instead of `T`, lower-case `t` and `z`, an offset without
colon (`+0530`) or without minutes (`+05`), and no offset at all, which means UTC. `without_offset` finds the
last case, for a schema that forbids it. Digits below the microsecond are cut off, never rounded. The
following are not instants: dates without a time, times without seconds, leap seconds, days that are not in
the calendar, and instants outside the years 0001 to 9999 (which Spark and Python cannot store).
"""

from __future__ import annotations

import functools
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

INSTANT = pa.timestamp("us", tz="UTC")

# A date and time without a time zone.
LOCAL_TIME = pa.timestamp("us")

_DAY_SHAPE = r"^\d{4}-\d{2}-\d{2}$"

_SHAPE = (
    r"^(\d{4}-\d{2}-\d{2})[Tt ]"
    r"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)"
    r"(?:(\.\d{1,6})\d*)?"
    r"(?:[Zz]|([+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?))?$"
)
_ENDS_WITH_OFFSET = r"[+-]\d{2}(?::?\d{2})?$"
_HAS_OFFSET = rf"(?:[Zz]|{_ENDS_WITH_OFFSET[:-1]})$"

# Length of "2026-01-01T00:00:00Z". Arrow also reads times without seconds, which are all shorter.
_SHORTEST = 20

# 0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999999Z in microseconds since 1970.
FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999


def read_instants(texts: pa.StringArray) -> pa.TimestampArray:
    """Return the instant of each text, null where the text is null or not an instant."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), INSTANT)
    instants = _read_uniform(texts)
    if instants is None:
        instants = _read_mixed(texts)
    first, last = _bounds()
    in_range = pc.and_(pc.greater_equal(instants, first), pc.less_equal(instants, last))
    if pc.all(in_range).as_py() is False:
        instants = pc.if_else(in_range, instants, pa.scalar(None, INSTANT))
    return instants


def read_days(texts: pa.StringArray) -> pa.Date32Array:
    """Return the day of each text (`2026-01-31`), null where the text is null or not a day."""
    texts = pc.if_else(pc.match_substring_regex(texts, _DAY_SHAPE), texts, pa.scalar(None, pa.string()))
    return pc.if_else(_on_calendar(texts), texts, pa.scalar(None, pa.string())).cast(pa.date32())


def without_offset(texts: pa.StringArray) -> pa.BooleanArray | None:
    """Return true for texts without an offset; None if all have one. Non-instants may be either."""
    if pc.all(pc.ends_with(texts, "Z")).as_py() is not False:
        return None
    lacking = pc.invert(pc.match_substring_regex(texts, _HAS_OFFSET))
    return lacking if pc.any(lacking).as_py() else None


@functools.cache
def _bounds() -> tuple[pa.TimestampScalar, pa.TimestampScalar]:
    # Not created at import, because the first value that pyarrow converts imports pandas, which would slow
    # down `tidemill validate`.
    return pa.scalar(FIRST, INSTANT), pa.scalar(LAST, INSTANT)


def _read_uniform(texts: pa.StringArray) -> pa.TimestampArray | None:
    """Parse the usual column in one cast: all texts end in Z. `_read_mixed` gives the same result."""
    if pc.min(pc.binary_length(texts)).as_py() < _SHORTEST or not pc.all(pc.ends_with(texts, "Z")).as_py():
        return None
    try:
        return texts.cast(INSTANT)
    except pa.ArrowInvalid:
        return None


def _read_mixed(texts: pa.StringArray) -> pa.TimestampArray:
    well_formed = pc.match_substring_regex(texts, _SHAPE)
    texts = pc.if_else(well_formed, texts, pa.scalar(None, pa.string()))
    texts = pc.if_else(_on_calendar(texts), texts, pa.scalar(None, pa.string()))
    texts = pc.replace_substring_regex(texts, _SHAPE, r"\1T\2\3\4")
    has_offset = pc.match_substring_regex(texts, _ENDS_WITH_OFFSET)
    in_utc = pc.binary_join_element_wise(texts, "Z", "")
    return pc.if_else(has_offset, texts, in_utc).cast(INSTANT)


def _on_calendar(texts: pa.StringArray) -> pa.BooleanArray:
    """Return true if the first ten characters are an existing day; a column has few distinct days."""
    days = pc.utf8_slice_codeunits(texts, 0, 10)
    existing = [day for day in pc.unique(days).to_pylist() if day is not None and _exists(day)]
    return pc.is_in(days, value_set=pa.array(existing, pa.string()))


def _exists(day: str) -> bool:
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True
