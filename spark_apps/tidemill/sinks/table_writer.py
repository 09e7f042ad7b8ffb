"""Choose the writer of a Delta sink. All writes go through this module."""

from __future__ import annotations

import pyarrow as pa

from tidemill.payload.decode import Stage
from tidemill.sinks.arrow_writer import ArrowWriter
from tidemill.sinks.batch_commit import StepDone, TableWriter, nothing_more
from tidemill.sinks.change_rows import table_schema
from tidemill.sinks.spark_writer import SparkWriter
from tidemill.sinks.table_columns import check_names
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink


def table_writer(
    sink: DeltaSink,
    log: TableLog,
    arrow_schema: pa.Schema,
    before: Stage | None = None,
    step_done: StepDone = nothing_more,
) -> TableWriter:
    """Return the table's writer; `before` is a stage that only the arrow writer can include."""
    name, _ = sink.writer_and_reason
    columns = table_schema(arrow_schema, sink)
    check_names(sink, columns)
    if name == "arrow":
        return ArrowWriter(log, columns, sink, before, step_done)
    return SparkWriter(log, columns, sink, step_done)
