"""What the schema asks beyond types: instants that exist, finite numbers, required fields that are there."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.json_explain import lacks_required
from tidemill.payload.json_schema import EACH_ITEM, Path, PayloadSchema, path_text
from tidemill.payload.timestamps import INSTANT, read_instants, without_offset

Reasons = dict[int, str]


def textual_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` with strings where instants are: what the JSON parser is asked for."""
    return pa.schema([pa.field(field.name, _textual(field.type)) for field in schema])


def _textual(declared: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(declared):
        return pa.struct([pa.field(field.name, _textual(field.type)) for field in declared])
    if pa.types.is_list(declared):
        return pa.list_(_textual(declared.value_type))
    return pa.string() if declared == INSTANT else declared


def apply_rules(
    batch: pa.RecordBatch, texts: pa.StringArray, schema: PayloadSchema
) -> tuple[pa.RecordBatch, Reasons]:
    """Return the batch with its instants, and the reasons of rows that break a rule.

    Instants and numbers come first, then required fields, each in the schema's order; the first broken rule
    counts.

    Args:
        batch: Rows as the parser gave them, columns of `textual_schema`.
        texts: The JSON text of each row.
        schema: The rules.
    """
    reasons: Reasons = {}
    columns = []
    for column, field in zip(batch.columns, schema.arrow_schema, strict=True):
        columns.append(_checked(column, field.type, _Place((field.name,), None), _Rules(schema, reasons)))
    for path in schema.required:
        _check_required(batch, texts, path, path in schema.required_nullable, reasons)
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow_schema), reasons


class _Place:
    """Where an array's values come from: their path, and the row of each (None: one per row, in order)."""

    def __init__(self, path: Path, rows: pa.Int64Array | None) -> None:
        self.path = path
        self.rows = rows

    def rows_where(self, mask: pa.BooleanArray) -> list[int]:
        offsets = pc.indices_nonzero(mask)
        rows: list[int] = (offsets if self.rows is None else self.rows.take(offsets)).to_pylist()
        return rows

    def property(self, name: str) -> _Place:
        return _Place((*self.path, name), self.rows)

    def items(self, lists: pa.ListArray) -> _Place:
        parents = pc.list_parent_indices(lists)
        return _Place((*self.path, EACH_ITEM), parents if self.rows is None else self.rows.take(parents))

    def filter(self, mask: pa.BooleanArray) -> _Place:
        rows = pc.indices_nonzero(mask) if self.rows is None else self.rows.filter(mask)
        return _Place(self.path, rows)


@dataclass(frozen=True)
class _Rules:
    """What values must be, and the reasons of the rows where one is not."""

    schema: PayloadSchema
    reasons: Reasons

    def reject(self, code: str, place: _Place, wrong: pa.BooleanArray) -> None:
        for row in place.rows_where(wrong):
            self.reasons.setdefault(row, f"{code}:{path_text(place.path)}")


def _checked(array: pa.Array, declared: pa.DataType, place: _Place, rules: _Rules) -> pa.Array:
    """Check numbers, and convert the strings that `declared` calls instants, at any depth."""
    if not _has_rules(declared):
        return array
    if pa.types.is_floating(declared):
        return _finite(array, place, rules)
    if declared == INSTANT:
        return _instants(array, place, rules)
    if pa.types.is_list(declared):
        items = _checked(array.values, declared.value_type, place.items(array), rules)
        return pa.ListArray.from_arrays(array.offsets, items, type=declared, mask=array.is_null())
    children = [
        _checked(array.field(field.name), field.type, place.property(field.name), rules) for field in declared
    ]
    return pa.StructArray.from_arrays(children, fields=list(declared), mask=array.is_null())


@functools.cache
def _has_rules(declared: pa.DataType) -> bool:
    if pa.types.is_struct(declared):
        return any(_has_rules(field.type) for field in declared)
    if pa.types.is_list(declared):
        return _has_rules(declared.value_type)
    return bool(declared == INSTANT or pa.types.is_floating(declared))


def _finite(array: pa.DoubleArray, place: _Place, rules: _Rules) -> pa.DoubleArray:
    if place.path not in rules.schema.non_finite:
        finite = pc.is_finite(array)
        if pc.all(finite).as_py() is False:
            rules.reject("not_finite", place, pc.invert(finite))
    return array


def _instants(texts: pa.StringArray, place: _Place, rules: _Rules) -> pa.TimestampArray:
    instants = read_instants(texts)
    if instants.null_count != texts.null_count:
        rules.reject("wrong_type", place, pc.and_(texts.is_valid(), instants.is_null()))
    if place.path not in rules.schema.no_offset and (lacking := without_offset(texts)) is not None:
        rules.reject("no_offset", place, lacking)
    return instants


def _check_required(
    batch: pa.RecordBatch, texts: pa.StringArray, path: Path, may_be_null: bool, reasons: Reasons
) -> None:
    array, place = batch.column(path[0]), _Place(path[:1], None)
    for step in path[1:]:
        # A required property of an object that is itself absent is not missing.
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
        # A column cannot tell null from missing; only the text can.
        if not may_be_null or lacks_required(texts[row].as_py(), path):
            reasons.setdefault(row, f"missing_required:{path_text(path)}")
