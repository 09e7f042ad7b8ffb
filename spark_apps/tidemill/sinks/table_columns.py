"""The columns of a table for the rows of a frame."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidemill.errors import SpecError
from tidemill.spec.column_names import column_named
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.near_key import near_key
from tidemill.spec.text import NOT_IN_DELTA_NAMES


def table_columns(schema: StructType) -> pa.Schema:
    """Return the columns, nullable at every depth and without metadata, as Delta's own writer makes them.

    Spark infers "never null" for each plan, so a table must not depend on it. The metadata of a column can
    hold the watermark, which would take effect in any query that reads the table as a stream.
    """
    plain = StructType([StructField(field.name, field.dataType) for field in schema.toNullable()])
    return to_arrow_schema(plain, timezone="UTC")


def spark_columns(columns: pa.Schema) -> StructType:
    """Return the same columns as Spark types."""
    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def check_names(sink: DeltaSink, columns: pa.Schema) -> None:
    """Raise an error for columns that a Delta table cannot have, and for declared columns that it lacks.

    Args:
        sink: The declaration.
        columns: Columns of the table.

    Raises:
        SpecError: TIDE-SINK-023, TIDE-SINK-024 or TIDE-SINK-029.
    """
    impossible = [name for name in columns.names if NOT_IN_DELTA_NAMES & set(name)]
    if impossible:
        raise SpecError(
            "TIDE-SINK-023",
            "A Delta table cannot have columns with these names. Nothing was started.",
            facts={"table": sink.table, "columns": impossible},
            fix="give them names without spaces, commas, semicolons, braces, parentheses, equals signs and "
            "backticks in the transform, or leave them out there",
        )
    for key in ("key", "partition_by", "cluster_by"):
        for name in getattr(sink, key):
            kind = _type_of(name, columns, with_fields=key == "cluster_by")
            if kind is None:
                raise lacking_column({"table": sink.table}, key, name, columns)
            if reason := _why_not(key, kind):
                raise _unusable(sink, key, name, f"{name} is {kind}, {reason}")
    if sink.partition_by and len(sink.partition_by) == len(columns):
        raise _unusable(sink, "partition_by", sink.partition_by[0], "no column is left for the files")


def lacking_column(place: Mapping[str, object], key: str, name: str, columns: pa.Schema) -> SpecError:
    """Return the error for a sink that names a column which its rows do not have."""
    near = near_key(name, columns.names)
    return SpecError(
        "TIDE-SINK-024",
        "A sink names a column that its rows do not have. Nothing was started.",
        facts={**place, "key": key, "column": name, "columns": list(columns.names)},
        fix=f"did you mean {near}?"
        if near
        else "name a column of the result, or of what the sink's own transform gives",
    )


def _unusable(sink: DeltaSink, key: str, name: str, reason: str) -> SpecError:
    return SpecError(
        "TIDE-SINK-029",
        "A table cannot be laid out or merged by this column. Nothing was started.",
        facts={"table": sink.table, "key": key, "column": name, "reason": reason},
        fix="name another column, or make one of it in the transform, such as a date, a text or a hash",
    )


def _type_of(name: str, columns: pa.Schema, *, with_fields: bool) -> pa.DataType | None:
    """Return the type of a column, or of a field of a struct; None if there is none."""
    column = column_named(name, columns.names)
    if column is not None:
        return columns.field(column).type
    first, *path = name.split(".")
    if not with_fields or column_named(first, columns.names) is None:
        return None
    kind = columns.field(column_named(first, columns.names)).type
    for part in path:
        found = column_named(part, [field.name for field in kind]) if pa.types.is_struct(kind) else None
        if found is None:
            return None
        kind = kind.field(found).type
    return kind


def _why_not(key: str, kind: pa.DataType) -> str:
    """Return the rule of Delta or of Spark's MERGE that a column's type violates; empty if none."""
    if key == "partition_by" and pa.types.is_nested(kind):
        return "and a partition is one plain value"
    if key == "key" and _holds_map(kind):
        return "and Spark does not compare maps"
    if key == "cluster_by" and (
        pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind)
    ):
        return "of which Delta keeps no statistics to cluster by"
    return ""


def _holds_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(
        _holds_map(kind.field(number).type) for number in range(kind.num_fields)
    )
