"""Write rows of a frame as data files of a table, which belong to no version of it yet."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.payload.arrow_pass import map_in_arrow
from tidemill.payload.decode import Stage
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile, write_part

_PART_SCHEMA = "name string, size long, rows long, statistics string"


def write_parts(
    frame: DataFrame, path: str, schema: pa.Schema, before: Stage | None = None
) -> list[PartFile]:
    """Write all rows of a frame once; files of failed attempts are never referenced.

    Args:
        frame: The rows.
        path: The table.
        schema: Columns of the files.
        before: Stage that converts the frame's batches to `schema`, in the same pass.
    """
    # More tasks than cores would only mean more start-up time and more, smaller files. With executors, this
    # is the number of cores of all of them, not only of the registered ones.
    tasks = frame.sparkSession.sparkContext.defaultParallelism
    parts = map_in_arrow(frame.coalesce(tasks), _part_task(path, schema, before), _PART_SCHEMA)
    return [PartFile(**row.asDict()) for row in parts.collect()]


def _part_task(path: str, schema: pa.Schema, before: Stage | None) -> Stage:
    """Return the task function: rows in, at most one row out, which describes its file."""
    access = access_to(path)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = batches if before is None else before(batches)
        part = write_part(path, f"part-{uuid.uuid4()}.snappy.parquet", schema, rows, access)
        if part is not None:
            yield pa.RecordBatch.from_pylist([vars(part)])

    return write
