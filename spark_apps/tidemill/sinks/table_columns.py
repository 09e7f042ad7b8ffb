"""The columns of a table for the rows of a frame."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidemill.errors import SpecError
from tidemill.spec.column_names import column_named
from tidemill.spec.sinks import DeltaSink
from tidemill.spec.text import NOT_IN_DELTA_NAMES


def table_columns(schema: StructType) -> pa.Schema:
    """All nullable at every depth and without metadata, as Delta's own writer makes them.

    Spark infers "never null" anew for each plan, so a table must not depend on it; and metadata of a column
    holds the watermark, which would go on working in whoever reads the table as a stream.
    """
    plain = StructType([StructField(field.name, field.dataType) for field in schema.toNullable()])
    return to_arrow_schema(plain, timezone="UTC")


def check_names(sink: DeltaSink, columns: pa.Schema) -> None:
    """Refuse columns that a Delta table cannot have, and a declaration that names columns that it lacks.

    Args:
        sink: The declaration.
        columns: Columns of the table.

    Raises:
        SpecError: TIDE-SINK-023, TIDE-SINK-024.
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
            # A field of a struct is looked for by Delta itself, when it makes the table.
            roots = [name, name.partition(".")[0]] if key == "cluster_by" else [name]
            if all(column_named(root, columns.names) is None for root in roots):
                raise SpecError(
                    "TIDE-SINK-024",
                    "A table's declaration names a column that its rows do not have. Nothing was started.",
                    facts={"table": sink.table, "key": key, "column": name, "columns": list(columns.names)},
                    fix="name a column of the result, or of what the sink's own transform gives",
                )
