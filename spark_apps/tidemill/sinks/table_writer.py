"""The one door: which writer stands behind a Delta sink."""

from __future__ import annotations

import pyarrow as pa

from tidemill.payload.decode import Stage
from tidemill.sinks.arrow_writer import ArrowWriter
from tidemill.sinks.batch_commit import StepDone, TableWriter, nothing_more
from tidemill.sinks.spark_writer import SparkWriter
from tidemill.sinks.table_log import TableLog
from tidemill.spec.sinks import DeltaSink


def table_writer(
    sink: DeltaSink,
    log: TableLog,
    arrow_schema: pa.Schema,
    before: Stage | None = None,
    step_done: StepDone = nothing_more,
) -> TableWriter:
    """The writer that the table needs; `before` is a stage that only the arrow writer can take in."""
    name, _ = sink.writer_and_reason
    if name == "arrow":
        return ArrowWriter(log, arrow_schema, before, step_done)
    return SparkWriter(log, arrow_schema, sink, step_done)
