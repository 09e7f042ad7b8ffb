"""A table in the driver's memory, which Spark SQL finds by its name."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import DataError
from tidemill.names import NEWEST_BATCH
from tidemill.spec.sinks import MemorySink


class MemoryTable:
    """The rows of all batches that this driver wrote, or of the newest whole result.

    Args:
        spark: The driver's session, whose SQL finds the table.
        sink: Name and row limit of the table.
        columns: Columns of the table.
        is_whole: True if each batch is the whole result.
    """

    def __init__(self, spark: SparkSession, sink: MemorySink, columns: pa.Schema, *, is_whole: bool) -> None:
        self._spark = spark
        self._sink = sink
        self._is_whole = is_whole
        self._batches: dict[int, pa.Table] = {}
        self._empty = columns.empty_table()
        self._show(self._empty)

    def put(self, frame: DataFrame, batch_id: int) -> int:
        """Add the rows of a batch, replacing rows of the same batch; return their number.

        Raises:
            DataError: TIDE-SINK-013, if there are too many.
        """
        others = {} if self._is_whole else {n: rows for n, rows in self._batches.items() if n != batch_id}
        room = self._sink.max_rows - sum(rows.num_rows for rows in others.values())
        rows = frame.limit(room + 1).toArrow()
        if rows.num_rows > room:
            raise DataError(
                "TIDE-SINK-013",
                "A table in the driver's memory is full.",
                facts={"table": self._sink.name, "max_rows": self._sink.max_rows, "batch_id": batch_id},
                fix="raise `max_rows`, choose fewer rows by `where`, or write a Delta table",
            )
        self._batches = {**others, batch_id: rows}
        self._show(pa.concat_tables(self._batches.values()))
        return int(rows.num_rows)

    def stream(self) -> bytes:
        """Return all rows as an Arrow stream, whose schema names the newest batch."""
        # Read the attribute once, because a batch may replace it in the meantime.
        batches = self._batches
        rows = pa.concat_tables(batches.values()) if batches else self._empty
        marked = rows.replace_schema_metadata({NEWEST_BATCH: str(max(batches, default=-1))})
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, marked.schema) as writer:
            writer.write_table(marked)
        return bytes(buffer.getvalue().to_pybytes())

    def _show(self, rows: pa.Table) -> None:
        self._spark.createDataFrame(rows).createOrReplaceTempView(self._sink.name)
