"""A Python pass over the Arrow batches of a frame with any column names."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemill.payload.decode import Stage

# Number of modules that this process had imported when their objects were frozen.
_FROZEN = {"modules": 0}


def map_in_arrow(rows: DataFrame, stage: Stage, schema: StructType | str) -> DataFrame:
    """Return `rows.mapInArrow(stage, schema)` for columns of any name.

    PySpark 4.2 looks up its input by unquoted names, so it treats `a.b` as the field b of a column a. Such
    columns go to the task under plain names, and get their own names back before the stage sees them.
    """
    names = rows.columns
    if not any(character in name for name in names for character in ".`"):
        return rows.mapInArrow(_settling(stage), schema)

    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return stage(batch.rename_columns(names) for batch in batches)

    plain = rows.toDF(*(f"column_{place}" for place in range(len(names))))
    return plain.mapInArrow(_settling(renamed), schema)


def _settling(stage: Stage) -> Stage:
    """Return the stage, after which the worker's modules are frozen."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from stage(batches)
        freeze_modules()

    return run


def freeze_modules() -> None:
    """Take the objects of imported modules out of garbage collection; call it again after new imports.

    PySpark collects the garbage of a worker after each task. The objects of a thousand modules
    take it 60 ms of a core, which is longer than a small task.
    """
    if len(sys.modules) > _FROZEN["modules"]:
        gc.collect()
        gc.freeze()
        _FROZEN["modules"] = len(sys.modules)
