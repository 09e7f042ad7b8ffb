"""Refuse tables that some readers could never open."""

from __future__ import annotations

import pyarrow as pa

from tidemill.errors import DataError
from tidemill.spec.nesting import MAX_LEVELS


def check_levels(columns: pa.Schema, path: str) -> None:
    """Raise an error for columns that are nested too deep, before a table has them.

    Raises:
        DataError: TIDE-SINK-021.
    """
    levels = {field.name: _levels(field.type) for field in columns}
    deepest = max(levels, key=lambda name: levels[name], default=None)
    if deepest is None or levels[deepest] <= MAX_LEVELS:
        return
    raise DataError(
        "TIDE-SINK-021",
        "A column is nested deeper than every reader of a table can open. Nothing was written.",
        facts={"table": path, "column": deepest, "levels": levels[deepest], "max_levels": MAX_LEVELS},
        fix=f"write the deep part as text in the transform, e.g. `to_json({deepest})`, or flatten it",
    )


def _levels(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return 1 + max(_levels(kind.key_type), _levels(kind.item_type))
    if pa.types.is_struct(kind):
        return 1 + max((_levels(field.type) for field in kind), default=0)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return 1 + _levels(kind.value_type) if is_list else 0
