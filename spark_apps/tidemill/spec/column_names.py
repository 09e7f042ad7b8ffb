"""The rule by which a pipeline file names columns.

A name means the column with exactly this name: `order.id` is the column `order.id`, and never the field `id`
of a struct `order`. If no column has exactly this name, it means the column that differs only in case,
because Spark's column names are case-insensitive. Only `cluster_by` may name a field of a struct, as
`order.id`, if no column has the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable


def column_named(name: str, columns: Iterable[str]) -> str | None:
    """Return the column with a name; None if there is none."""
    same = [column for column in columns if column.lower() == name.lower()]
    return name if name in same else next(iter(same), None)


def quoted(name: str, of: str = "") -> str:
    """Return a column as a quoted SQL name, including its dots.

    Args:
        name: The column.
        of: Prefix of the name, such as the alias `t.`.
    """
    return f"{of}`{name.replace('`', '``')}`"


def quoted_field(name: str, columns: Iterable[str]) -> str:
    """Return a column, or a field of a struct if there is no such column, as a quoted SQL name."""
    column = column_named(name, columns)
    return quoted(column) if column is not None else ".".join(map(quoted, name.split(".")))
