"""Walk the values inside of a column, at any depth, and find the row of each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.json_schema import EACH_ITEM, Path, path_text


class Place:
    """The origin of an array's values: their path, and the row of each (None: one per row, in order)."""

    def __init__(self, path: Path, rows: pa.Int64Array | None) -> None:
        self.path = path
        self.rows = rows

    def rows_where(self, mask: pa.BooleanArray) -> list[int]:
        """Return the rows of the values for which `mask` is true."""
        offsets = pc.indices_nonzero(mask)
        rows: list[int] = (offsets if self.rows is None else self.rows.take(offsets)).to_pylist()
        return rows

    def property(self, name: str) -> Place:
        """Return the place of a property of each value."""
        return Place((*self.path, name), self.rows)

    def items(self, lists: pa.ListArray) -> Place:
        """Return the place of the items of each value."""
        parents = pc.list_parent_indices(lists)
        return Place((*self.path, EACH_ITEM), parents if self.rows is None else self.rows.take(parents))

    def filter(self, mask: pa.BooleanArray) -> Place:
        """Return the place of the values for which `mask` is true."""
        rows = pc.indices_nonzero(mask) if self.rows is None else self.rows.filter(mask)
        return Place(self.path, rows)


@dataclass(frozen=True)
class Broken:
    """Rows that break a rule; only the first reason of a row counts."""

    reasons: dict[int, str] = field(default_factory=dict)

    def reject(self, code: str, place: Place, wrong: pa.BooleanArray) -> None:
        """Reject the rows with a value for which `wrong` is true."""
        for row in place.rows_where(wrong):
            self.reasons.setdefault(row, f"{code}:{path_text(place.path)}")


# Converts the values of one place to their final type.
Convert = Callable[[pa.Array, pa.DataType, Place], pa.Array]


def convert_leaves(
    array: pa.Array, declared: pa.DataType, place: Place, concerns: Callable[[pa.DataType], bool], do: Convert
) -> pa.Array:
    """Convert the plain values in a column, at any depth.

    Args:
        array: The column; not a slice.
        declared: Its type, as `do` knows it.
        place: Place of the column.
        concerns: Returns True if a type has anything to convert; other values stay unchanged.
        do: Converts plain values.
    """
    if not concerns(declared):
        return array
    if pa.types.is_struct(declared):
        children = [
            convert_leaves(array.field(f.name), f.type, place.property(f.name), concerns, do)
            for f in declared
        ]
        fields = [
            pa.field(f.name, child.type, f.nullable) for f, child in zip(declared, children, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_map(declared):
        lists = pa.ListArray.from_arrays(array.offsets, array.items)
        items = convert_leaves(array.items, declared.item_type, place.items(lists), concerns, do)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=array.is_null())
    if pa.types.is_list(declared):
        items = convert_leaves(array.values, declared.value_type, place.items(array), concerns, do)
        return pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
    return do(array, declared, place)


def reject_non_finite(numbers: pa.Array, place: Place, broken: Broken) -> None:
    """Reject rows with NaN or an infinity, because Spark sorts NaN above all numbers."""
    finite = pc.is_finite(numbers)
    if pc.all(finite).as_py() is False:
        broken.reject("not_finite", place, pc.invert(finite))
