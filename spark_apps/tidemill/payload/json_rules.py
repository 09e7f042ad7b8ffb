"""Check rules beyond types: existing instants and days, finite numbers, required fields."""

from __future__ import annotations

import base64
import binascii
import functools

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.decimals import out_of_range, parsed_type
from tidemill.payload.json_explain import lacks_required
from tidemill.payload.json_schema import EACH_ITEM, Path, PayloadSchema, path_text
from tidemill.payload.leaves import Broken, Convert, Place, convert_leaves, reject_non_finite
from tidemill.payload.timestamps import INSTANT, LOCAL_TIME, read_days, read_instants, without_offset

Reasons = dict[int, str]

_TEXTUAL = (INSTANT, LOCAL_TIME, pa.date32(), pa.binary())

# Numbers that a parser reads as the widest type of their kind.
_NARROW = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), pa.int64()),
    pa.float32(): pa.float64(),
}


def textual_schema(schema: pa.Schema) -> pa.Schema:
    """Return the parser's schema: strings for times and bytes, and numbers of the widest type."""
    return pa.schema([pa.field(field.name, _textual(field.type)) for field in schema])


def _textual(declared: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(declared):
        return pa.struct([pa.field(field.name, _textual(field.type)) for field in declared])
    if pa.types.is_list(declared):
        return pa.list_(_textual(declared.value_type))
    if pa.types.is_decimal(declared):
        return parsed_type(declared)
    return pa.string() if declared in _TEXTUAL else _NARROW.get(declared, declared)


def apply_rules(
    batch: pa.RecordBatch, texts: pa.StringArray, schema: PayloadSchema
) -> tuple[pa.RecordBatch, Reasons]:
    """Return the batch with its instants, and the reasons of rows that break a rule.

    Instants and numbers are checked first, then required fields, each in the schema's order. The first broken
    rule counts.

    Args:
        batch: Rows of the parser, with the columns of `textual_schema`.
        texts: The JSON text of each row.
        schema: The rules.
    """
    broken = Broken()
    convert = _leaf(schema, broken)
    columns = [
        convert_leaves(column, field.type, Place((field.name,), None), _has_rules, convert)
        for column, field in zip(batch.columns, schema.arrow_schema, strict=True)
    ]
    for path in schema.required:
        _check_required(batch, texts, path, path in schema.required_nullable, broken.reasons)
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow_schema), broken.reasons


@functools.cache
def _has_rules(declared: pa.DataType) -> bool:
    if pa.types.is_struct(declared):
        return any(_has_rules(field.type) for field in declared)
    if pa.types.is_list(declared):
        return _has_rules(declared.value_type)
    is_number = pa.types.is_floating(declared) or pa.types.is_decimal(declared) or declared in _NARROW
    return bool(declared in _TEXTUAL or is_number)


def _leaf(schema: PayloadSchema, broken: Broken) -> Convert:
    """Return the conversion of strings that are declared as times or bytes, of decimals and of numbers."""

    def convert(array: pa.Array, declared: pa.DataType, place: Place) -> pa.Array:
        if declared == INSTANT:
            return _instants(array, place, schema, broken)
        if declared == pa.date32():
            return _known(array, read_days(array), place, broken)
        if declared == LOCAL_TIME:
            return _known(array, _local_times(array), place, broken)
        if declared == pa.binary():
            return _known(array, _bytes(array), place, broken)
        if pa.types.is_decimal(declared):
            return _decimals(array, declared, place, broken)
        if pa.types.is_floating(declared) and place.path not in schema.non_finite:
            reject_non_finite(array, place, broken)
        return _narrowed(array, declared, place, broken) if declared in _NARROW else array

    return convert


def _instants(
    texts: pa.StringArray, place: Place, schema: PayloadSchema, broken: Broken
) -> pa.TimestampArray:
    instants = _known(texts, read_instants(texts), place, broken)
    if place.path not in schema.no_offset and (lacking := without_offset(texts)) is not None:
        broken.reject("no_offset", place, lacking)
    return instants


def _local_times(texts: pa.StringArray) -> pa.TimestampArray:
    """Parse times without an offset; a text with an offset, or one that is not a time, becomes null."""
    times = read_instants(texts).cast(LOCAL_TIME)
    lacking = without_offset(texts)
    if lacking is None:
        lacking = pc.is_null(texts)
    return pc.if_else(lacking, times, pa.scalar(None, LOCAL_TIME))


def _bytes(texts: pa.StringArray) -> pa.BinaryArray:
    """Decode Base64 texts; a text that is not Base64 becomes null."""
    return pa.array([None if text is None else _of_base64(text) for text in texts.to_pylist()], pa.binary())


def _of_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _narrowed(numbers: pa.Array, declared: pa.DataType, place: Place, broken: Broken) -> pa.Array:
    """Convert numbers to a smaller type; reject rows whose number the type cannot store."""
    if pa.types.is_floating(declared):
        # Above the type's largest number; a declared infinity stays infinite.
        values = numbers.cast(declared, safe=False)
        wrong = pc.and_(pc.is_finite(numbers), pc.is_inf(values))
    else:
        bits = declared.bit_width - 1
        wrong = pc.or_(pc.less(numbers, -(2**bits)), pc.greater_equal(numbers, 2**bits))
        values = pc.if_else(wrong, pa.scalar(None, numbers.type), numbers).cast(declared)
    if pc.any(wrong).as_py():
        broken.reject("out_of_range", place, wrong)
    return values


def _decimals(values: pa.Array, declared: pa.Decimal128Type, place: Place, broken: Broken) -> pa.Array:
    wrong = out_of_range(values, declared)
    if pc.any(wrong).as_py():
        broken.reject("out_of_range", place, wrong)
        values = pc.if_else(wrong, pa.scalar(None, values.type), values)
    return values.cast(declared)


def _known(texts: pa.StringArray, values: pa.Array, place: Place, broken: Broken) -> pa.Array:
    """Return the values, and reject rows whose text is not a value."""
    if values.null_count != texts.null_count:
        broken.reject("wrong_type", place, pc.and_(texts.is_valid(), values.is_null()))
    return values


def _check_required(
    batch: pa.RecordBatch, texts: pa.StringArray, path: Path, may_be_null: bool, reasons: Reasons
) -> None:
    array, place = batch.column(path[0]), Place(path[:1], None)
    for step in path[1:]:
        # A required property of a missing object is not missing itself.
        if array.null_count:
            present = array.is_valid()
            array, place = array.filter(present), place.filter(present)
        if step == EACH_ITEM:
            array, place = array.flatten(), place.items(array)
        else:
            array, place = pc.struct_field(array, step), place.property(step)
    if array.null_count == 0:
        return
    for row in place.rows_where(array.is_null()):
        # A column cannot distinguish null from missing; only the text can.
        if not may_be_null or lacks_required(texts[row].as_py(), path):
            reasons.setdefault(row, f"missing_required:{path_text(path)}")
