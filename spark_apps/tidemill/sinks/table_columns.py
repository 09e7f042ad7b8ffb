"""The columns of a table for the rows of a frame."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType


def table_columns(schema: StructType) -> pa.Schema:
    """All nullable at every depth and without metadata, as Delta's own writer makes them.

    Spark infers "never null" anew for each plan, so a table must not depend on it; and metadata of a column
    holds the watermark, which would go on working in whoever reads the table as a stream.
    """
    plain = StructType([StructField(field.name, field.dataType) for field in schema.toNullable()])
    return to_arrow_schema(plain, timezone="UTC")
