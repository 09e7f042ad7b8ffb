"""A Python pass over the Arrow batches of a frame with any column names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemill.payload.decode import Stage


def map_in_arrow(rows: DataFrame, stage: Stage, schema: StructType | str) -> DataFrame:
    """Return `rows.mapInArrow(stage, schema)` for columns of any name.

    PySpark 4.2 looks up its input by unquoted names, so it treats `a.b` as the field b of a column a. Such
    columns go to the task under plain names, and get their own names back before the stage sees them.
    """
    names = rows.columns
    if not any(character in name for name in names for character in ".`"):
        return rows.mapInArrow(stage, schema)

    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return stage(batch.rename_columns(names) for batch in batches)

    plain = rows.toDF(*(f"column_{place}" for place in range(len(names))))
    return plain.mapInArrow(renamed, schema)
