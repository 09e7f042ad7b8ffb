"""Compare the columns that a pipeline writes with those of its table, at any depth. Pure.

The order of columns and of struct fields does not matter, because both writers and all readers use names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltalake.schema import ArrayType, MapType, Schema, StructType

Declared = StructType | ArrayType | MapType | object


@dataclass(frozen=True)
class ColumnChanges:
    """The changes from a table to the written columns, by path such as `device.zone` or `items[].price`.

    Args:
        added: Columns that the table does not have.
        removed: Columns that are not written.
        other_type: Columns with another type, or with a name that differs only by case, with both.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    other_type: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_adds(self) -> bool:
        """Return True if the table only needs new columns."""
        return not self.removed and not self.other_type

    @property
    def nothing(self) -> bool:
        """Return True if there is no difference."""
        return self.only_adds and not self.added


def column_changes(table: Schema, written: Schema) -> ColumnChanges:
    """Compare a table's columns with the written columns."""
    found = list(_of_fields(table, written, ""))
    return ColumnChanges(
        tuple(sorted(path for kind, path, _ in found if kind == "added")),
        tuple(sorted(path for kind, path, _ in found if kind == "removed")),
        {path: reason for kind, path, reason in sorted(found) if kind == "other"},
    )


_Change = tuple[str, str, str]


def _of_fields(table: Schema | StructType, written: Schema | StructType, prefix: str) -> Iterator[_Change]:
    there = {column.name: column.type for column in table.fields}
    wanted = {column.name: column.type for column in written.fields}
    spelled = {name.lower(): name for name in there}
    for name in wanted:
        path = prefix + name
        if name in there:
            yield from _of_types(there[name], wanted[name], path)
        elif (twin := spelled.get(name.lower())) is not None and twin not in wanted:
            # Spark does not distinguish columns by case, but other readers do.
            yield "other", path, f"{twin} instead of {name}"
        else:
            yield "added", path, ""
    written_names = {name.lower() for name in wanted}
    yield from (("removed", prefix + name, "") for name in there if name.lower() not in written_names)
    # For top-level columns, the writers can enforce NOT NULL, or refuse the table (row_rules.py).
    strict = [column.name for column in table.fields if prefix and not column.nullable]
    yield from (("other", prefix + name, "not null instead of nullable") for name in strict)


def _of_types(table: Declared, written: Declared, path: str) -> Iterator[_Change]:
    if isinstance(table, StructType) and isinstance(written, StructType):
        yield from _of_fields(table, written, f"{path}.")
    elif isinstance(table, ArrayType) and isinstance(written, ArrayType):
        yield from _of_types(table.element_type, written.element_type, f"{path}[]")
        if not table.contains_null:
            yield "other", f"{path}[]", "not null instead of nullable"
    elif isinstance(table, MapType) and isinstance(written, MapType):
        yield from _of_types(table.key_type, written.key_type, f"{path}.key")
        yield from _of_types(table.value_type, written.value_type, f"{path}[]")
    elif str(table) != str(written):
        yield "other", path, f"{table} instead of {written}"
