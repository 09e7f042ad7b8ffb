"""What the schema asks beyond types: instants that exist and required fields that are there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.json_explain import lacks_required
from tidemill.payload.json_schema import EACH_ITEM, Path, PayloadSchema, path_text
from tidemill.payload.timestamps import INSTANT, read_instants

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

    Instants come first, then required fields, each in the schema's order; the first broken rule counts.

    Args:
        batch: Rows as the parser gave them, columns of `textual_schema`.
        texts: The JSON text of each row.
        schema: The rules.
    """
    reasons: Reasons = {}
    columns = []
    for column, field in zip(batch.columns, schema.arrow_schema, strict=True):
        columns.append(_with_instants(column, field.type, _Place((field.name,), None), reasons))
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


def _with_instants(array: pa.Array, declared: pa.DataType, place: _Place, reasons: Reasons) -> pa.Array:
    """Convert the strings that `declared` calls instants, at any depth."""
    if array.type == declared:
        return array
    if pa.types.is_struct(declared):
        children = [
            _with_instants(array.field(field.name), field.type, place.property(field.name), reasons)
            for field in declared
        ]
        return pa.StructArray.from_arrays(children, fields=list(declared), mask=array.is_null())
    if pa.types.is_list(declared):
        items = _with_instants(array.values, declared.value_type, place.items(array), reasons)
        return pa.ListArray.from_arrays(array.offsets, items, type=declared, mask=array.is_null())
    instants = read_instants(array)
    if instants.null_count != array.null_count:
        wrong = pc.and_(array.is_valid(), instants.is_null())
        for row in place.rows_where(wrong):
            reasons.setdefault(row, f"wrong_type:{path_text(place.path)}")
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
