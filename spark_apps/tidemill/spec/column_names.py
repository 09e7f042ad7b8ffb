"""The one rule by which a pipeline file names columns.

A name is the column with this very name, whatever is in it: `order.id` is the column `order.id`, and never
the field `id` of a struct `order`. Where no column has this very name, the one that differs only in case is
meant, because Spark does not distinguish columns by case. Only `cluster_by` may name a field of a struct, as
`order.id`, if no column has the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable


def column_named(name: str, columns: Iterable[str]) -> str | None:
    """Return the column that a name means; None if there is none."""
    same = [column for column in columns if column.lower() == name.lower()]
    return name if name in same else next(iter(same), None)


def quoted(name: str, of: str = "") -> str:
    """Return a column as SQL reads it, as one name with its dots.

    Args:
        name: The column.
        of: What stands before it, such as the alias `t.`.
    """
    return f"{of}`{name.replace('`', '``')}`"


def quoted_field(name: str, columns: Iterable[str]) -> str:
    """Return a column, or else a field of a struct, as SQL reads it."""
    column = column_named(name, columns)
    return quoted(column) if column is not None else ".".join(map(quoted, name.split(".")))
