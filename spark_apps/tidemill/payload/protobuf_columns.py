"""Convert parsed messages to columns, one field of all messages at a time; reject values that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ParsedMessage
from google.protobuf.unknown_fields import UnknownFieldSet

from tidemill.payload.leaves import Broken, Place, reject_non_finite
from tidemill.payload.protobuf_schema import (
    DURATION,
    SECONDS,
    TIMESTAMP,
    WRAPPERS,
    Message,
    ProtobufField,
)
from tidemill.payload.protobuf_wire import wire_name
from tidemill.payload.readable import INVALID_UTF8
from tidemill.payload.timestamps import FIRST, INSTANT, LAST

OUT_OF_RANGE = "out_of_range"
UNKNOWN_ENUM_NUMBER = "unknown_enum_number"
WRONG_WIRE_TYPE = "wrong_wire_type"
MISSING_REQUIRED = "missing_required"

_T = FieldDescriptor
_INT32 = (-(2**31), 2**31 - 1)
# Types that are parsed with 64 bits but have fewer.
_RANGES = {
    _T.TYPE_INT32: _INT32,
    _T.TYPE_SINT32: _INT32,
    _T.TYPE_UINT32: (0, 2**32 - 1),
    _T.TYPE_BOOL: (0, 1),
}
_UNSIGNED = frozenset({_T.TYPE_UINT32, _T.TYPE_UINT64, _T.TYPE_FIXED32, _T.TYPE_FIXED64, _T.TYPE_BOOL})

_MICROS, _NANOS = 10**6, 10**9
# Ten thousand years, the maximum of the type.
_LONGEST = 315_576_000_000
_EXACT = Context(prec=SECONDS.precision)


def message_columns(
    messages: Sequence[ParsedMessage], declared: Message, place: Place, broken: Broken
) -> list[pa.Array]:
    """Return one array per field.

    Args:
        messages: Messages parsed with the class of `declared`.
        declared: Their type.
        place: Their place.
        broken: Receives the rows with a value that its column cannot store.
    """
    _reject_wrong_wire_types(messages, declared, place, broken)
    return [_field(messages, field, place.property(field.name), broken) for field in declared.fields]


def _reject_wrong_wire_types(
    messages: Sequence[ParsedMessage], declared: Message, place: Place, broken: Broken
) -> None:
    """Reject a known number with another type, which the runtime would treat as a missing field."""
    unknown = {
        offset: {field.field_number for field in found}
        for offset, message in enumerate(messages)
        if len(found := UnknownFieldSet(message))
    }
    for number, field in ((field.number, field) for field in declared.fields if unknown):
        wrong = [number in unknown.get(offset, ()) for offset in range(len(messages))]
        broken.reject(WRONG_WIRE_TYPE, place.property(field.name), pa.array(wrong, pa.bool_()))


def _field(messages: Sequence[ParsedMessage], field: ProtobufField, place: Place, broken: Broken) -> pa.Array:
    name = wire_name(field)
    values = list(map(attrgetter(name), messages))
    if field.is_repeated:
        return _lists(values, field, place, broken)
    if not field.has_presence:
        return _values(values, field, place, broken)
    written = [message.HasField(name) for message in messages]
    if all(written):
        return _values(values, field, place, broken)
    if field.is_required:
        broken.reject(MISSING_REQUIRED, place, pc.invert(pa.array(written, pa.bool_())))
    if field.message is None:
        filled = [value if there else field.default for value, there in zip(values, written, strict=True)]
        return _values(filled, field, place, broken)
    present = [value for value, there in zip(values, written, strict=True) if there]
    dense = _values(present, field, place.filter(pa.array(written, pa.bool_())), broken)
    positions = accumulate(written, initial=0)
    # Position of each message among the written ones, or None.
    return dense.take(
        pa.array([at if there else None for at, there in zip(positions, written, strict=False)], pa.int64())
    )


def _lists(values: list[Any], field: ProtobufField, place: Place, broken: Broken) -> pa.Array:
    flat = list(chain.from_iterable(values))
    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    inside = place.items(pa.ListArray.from_arrays(offsets, pa.nulls(len(flat))))
    if field.message is None or not field.is_map:
        return pa.ListArray.from_arrays(offsets, _values(flat, field, inside, broken), type=field.type)
    _reject_wrong_wire_types(flat, field.message, inside, broken)
    keys, items = (
        _values(list(map(attrgetter(wire_name(part)), flat)), part, inside, broken)
        for part in field.message.fields
    )
    return _without_repeated_keys(offsets, keys, items)


def _without_repeated_keys(offsets: pa.Int32Array, keys: pa.Array, items: pa.Array) -> pa.MapArray:
    """Return the maps; if a key is repeated, the last entry counts, as for every Protobuf reader."""
    bounds, known = offsets.to_pylist(), keys.to_pylist()
    newest = [{known[at]: at for at in range(start, end)}.values() for start, end in pairwise(bounds)]
    if sum(map(len, newest)) < len(keys):
        kept = pa.array(chain.from_iterable(newest), pa.int64())
        offsets = pa.array(accumulate(map(len, newest), initial=0), pa.int32())
        keys, items = keys.take(kept), items.take(kept)
    if keys.null_count:
        # The row is already rejected; a map cannot have a null key.
        keys = keys.fill_null(pa.scalar(0).cast(keys.type))
    return pa.MapArray.from_arrays(offsets, keys, items)


def _values(values: list[Any], field: ProtobufField, place: Place, broken: Broken) -> pa.Array:
    """Return values of one type as an array of the field's column; None means no value."""
    message = field.message
    if message is None:
        return _scalars(values, field, place, broken)
    columns = message_columns(values, message, place, broken)
    if message.name in WRAPPERS:
        return columns[0]
    if message.name == TIMESTAMP:
        return _instants(columns[0], columns[1], place, broken)
    if message.name == DURATION:
        return _durations(columns[0], columns[1], place, broken)
    return pa.StructArray.from_arrays(columns, fields=list(field.column))


def _scalars(values: list[Any], field: ProtobufField, place: Place, broken: Broken) -> pa.Array:
    kind = field.kind
    if kind == _T.TYPE_STRING:
        return _texts(pa.array(values, pa.binary()), place, broken)
    if kind == _T.TYPE_BYTES:
        return pa.array(values, pa.binary())
    if pa.types.is_floating(field.column):
        numbers = pa.array(values, field.column)
        reject_non_finite(numbers, place, broken)
        return numbers
    integers = pa.array(values, pa.uint64() if kind in _UNSIGNED else pa.int64())
    if kind == _T.TYPE_ENUM:
        return _symbols(integers, field, place, broken)
    if kind in _RANGES:
        integers = _within(integers, *_RANGES[kind], place, broken)
    return integers.cast(field.column)


def _within(numbers: pa.Array, lowest: int, highest: int, place: Place, broken: Broken) -> pa.Array:
    below = pc.less(numbers, pa.scalar(lowest, numbers.type))
    above = pc.greater(numbers, pa.scalar(highest, numbers.type))
    outside = pc.or_(below, above).fill_null(False)
    if not pc.any(outside).as_py():
        return numbers
    broken.reject(OUT_OF_RANGE, place, outside)
    return pc.if_else(outside, pa.scalar(None, numbers.type), numbers)


def _symbols(numbers: pa.Int64Array, field: ProtobufField, place: Place, broken: Broken) -> pa.Array:
    known, names = zip(*field.symbols, strict=True)
    places = pc.index_in(numbers, value_set=pa.array(known, pa.int64()))
    if places.null_count > numbers.null_count:
        broken.reject(UNKNOWN_ENUM_NUMBER, place, pc.and_(places.is_null(), numbers.is_valid()))
    return pa.array(names, pa.string()).take(places)


def _texts(written: pa.BinaryArray, place: Place, broken: Broken) -> pa.StringArray:
    try:
        return written.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = pa.array([_is_no_text(text) for text in written.to_pylist()], pa.bool_())
        broken.reject(INVALID_UTF8, place, wrong)
        return pc.if_else(wrong, pa.scalar(None, pa.binary()), written).cast(pa.string())


def _is_no_text(written: bytes | None) -> bool:
    try:
        _ = written is None or written.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _instants(seconds: pa.Int64Array, nanos: pa.Int32Array, place: Place, broken: Broken) -> pa.Array:
    """Convert to microseconds; further digits are cut off."""
    seconds = _within(seconds, FIRST // _MICROS, LAST // _MICROS, place, broken)
    nanos = _within(nanos, 0, _NANOS - 1, place, broken)
    below = pc.divide(nanos.cast(pa.int64()), 1000)
    return pc.add(pc.multiply(seconds, _MICROS), below).cast(INSTANT)


def _durations(seconds: pa.Int64Array, nanos: pa.Int32Array, place: Place, broken: Broken) -> pa.Array:
    """Convert to seconds with nine digits after the point; both parts have the same sign."""
    pairs = zip(seconds.to_pylist(), nanos.to_pylist(), strict=True)
    values = pa.array([_duration(whole, part) for whole, part in pairs], SECONDS)
    if values.null_count:
        broken.reject(OUT_OF_RANGE, place, values.is_null())
    return values


def _duration(seconds: int, nanos: int | None) -> Decimal | None:
    if nanos is None or abs(seconds) > _LONGEST or abs(nanos) >= _NANOS or seconds * nanos < 0:
        return None
    return Decimal(seconds * _NANOS + nanos).scaleb(-9, _EXACT)
