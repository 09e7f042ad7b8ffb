"""Convert whole columns of fastavro's numbers and bytes to timestamps, dates and decimals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.avro_schema import MILLISECONDS, AvroSchema
from tidemill.payload.decimals import MAX_DIGITS
from tidemill.payload.leaves import Broken, Place, convert_leaves, reject_non_finite
from tidemill.payload.timestamps import FIRST, INSTANT, LAST

# 0001-01-01 and 9999-12-31 in days since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896

OUT_OF_RANGE = "out_of_range"

_EXACT = Context(prec=MAX_DIGITS)


def raw_type(wire: pa.DataType) -> pa.DataType:
    """Return fastavro's result for a type: the number or bytes without the logical type."""
    return _with_leaves(wire, _raw_leaf)


def column_type(wire: pa.DataType) -> pa.DataType:
    """Return the type of the column: timestamps are in microseconds."""
    return _with_leaves(wire, lambda leaf: INSTANT if pa.types.is_timestamp(leaf) else leaf)


def _raw_leaf(wire: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(wire):
        return pa.int64()
    if pa.types.is_date(wire):
        return pa.int32()
    return pa.binary() if pa.types.is_decimal(wire) else wire


def _with_leaves(wire: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return the type with replaced leaf types."""
    if pa.types.is_struct(wire):
        return pa.struct([pa.field(field.name, _with_leaves(field.type, leaf)) for field in wire])
    if pa.types.is_map(wire):
        return pa.map_(wire.key_type, _with_leaves(wire.item_type, leaf))
    return pa.list_(_with_leaves(wire.value_type, leaf)) if pa.types.is_list(wire) else leaf(wire)


def converted(raw: pa.RecordBatch, schema: AvroSchema, columns: pa.Schema) -> tuple[pa.RecordBatch, Broken]:
    """Return the converted rows, and the rows with a value that its column cannot store."""
    broken = Broken()

    def convert(array: pa.Array, wire: pa.DataType, place: Place) -> pa.Array:
        if pa.types.is_floating(wire):
            if place.path not in schema.non_finite:
                reject_non_finite(array, place, broken)
            return array
        if pa.types.is_decimal(wire):
            return _decimals(array, wire, place, broken)
        return _moments(array, wire, place, broken)

    arrays = [
        convert_leaves(column, field.type, Place((field.name,), None), _concerns, convert)
        for column, field in zip(raw.columns, schema.wire, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns), broken


@functools.cache
def _concerns(wire: pa.DataType) -> bool:
    if pa.types.is_struct(wire):
        return any(_concerns(field.type) for field in wire)
    if pa.types.is_map(wire):
        return _concerns(wire.item_type)
    if pa.types.is_list(wire):
        return _concerns(wire.value_type)
    return bool(
        pa.types.is_floating(wire)
        or pa.types.is_timestamp(wire)
        or pa.types.is_date(wire)
        or pa.types.is_decimal(wire)
    )


def _moments(numbers: pa.Array, wire: pa.DataType, place: Place, broken: Broken) -> pa.Array:
    """Convert timestamps and dates within the years 0001 to 9999, which Spark and Python can store."""
    first, last = (FIRST, LAST) if wire == INSTANT else (_FIRST_DAY, _LAST_DAY)
    if wire == MILLISECONDS:
        first, last = FIRST // 1000, LAST // 1000
    outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last)).fill_null(False)
    if pc.any(outside).as_py():
        broken.reject(OUT_OF_RANGE, place, outside)
        numbers = pc.if_else(outside, pa.scalar(None, numbers.type), numbers)
    return numbers.cast(wire).cast(column_type(wire))


def _decimals(unscaled: pa.BinaryArray, wire: pa.DataType, place: Place, broken: Broken) -> pa.Array:
    numbers = [None if digits is None else _decimal(digits, wire) for digits in unscaled.to_pylist()]
    values = pa.array(numbers, wire)
    if values.null_count != unscaled.null_count:
        broken.reject(OUT_OF_RANGE, place, pc.and_(unscaled.is_valid(), values.is_null()))
    return values


def _decimal(digits: bytes, wire: pa.DataType) -> Decimal | None:
    """Convert a big-endian two's complement number; return None if it has more digits than declared."""
    unscaled = int.from_bytes(digits, "big", signed=True)
    if abs(unscaled) >= 10**wire.precision:
        return None
    return Decimal(unscaled).scaleb(-wire.scale, _EXACT)
