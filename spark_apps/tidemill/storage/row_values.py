"""Convert Arrow rows to Python values, even if `datetime` cannot hold their times.

Arrow's own `to_pylist` raises OverflowError for a year before 1 or after 9999.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # local times have no zone
# The Gregorian calendar repeats after 400 years.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_DAY = 86_400_000_000
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}


def row_values(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dictionaries; a time that Python cannot hold becomes a text, such as `+10000-01-01`."""
    try:
        return rows.to_pylist()  # type: ignore[no-any-return]
    except OverflowError:
        columns = [[_value(part) for part in column] for column in rows.columns]
        return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(scalar: pa.Scalar) -> Any:
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(part) for name, part in scalar.items()}
    if isinstance(scalar, pa.MapScalar):
        return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [_value(part) for part in scalar.values]
    try:
        return scalar.as_py()
    except OverflowError:
        return _text_of(scalar)


def _text_of(scalar: pa.Scalar) -> str:
    import pyarrow as pa

    if isinstance(scalar, pa.TimestampScalar):
        text = _instant(scalar.value * _MICROSECONDS[scalar.type.unit])
        return text if scalar.type.tz is None else f"{text}Z"
    return _instant(scalar.cast(pa.int32()).as_py() * _DAY)[: -len("T00:00:00.000000")]


def _instant(microseconds: int) -> str:
    cycles, rest = divmod(microseconds, _CYCLE_DAYS * _DAY)
    moment = _EPOCH + timedelta(microseconds=rest)
    return f"{moment.year + cycles * _CYCLE_YEARS:+05d}{moment:-%m-%dT%H:%M:%S.%f}"
