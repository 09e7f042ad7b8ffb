"""The outputs of a pipeline: each sink with its name, condition and write function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from tidemill.checkpoint.retention.rule import retention_of, table_properties
from tidemill.engine.flow import Flow
from tidemill.engine.sink_rows import SinkRows, sink_rows
from tidemill.engine.transform import load_code
from tidemill.names import CHANGE_FEED, Layout
from tidemill.sinks.batch_commit import BatchCommit, Staged, StepDone, Written, nothing_more
from tidemill.sinks.files_sink import check_columns, write_files
from tidemill.sinks.foreach_sink import call_with_batch, write_rows
from tidemill.sinks.kafka_sink import check_key, send_rows
from tidemill.sinks.memory_sink import MemoryTable
from tidemill.sinks.table_columns import spark_columns
from tidemill.sinks.table_log import TableLog
from tidemill.sinks.table_writer import table_writer
from tidemill.sources.kafka_clients import environment_client
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import ConsoleSink, FilesSink, ForeachBatchSink, ForeachSink, KafkaSink, Sink


@dataclass(frozen=True)
class Output:
    """One sink of one pipeline.

    Args:
        name: `Sink.output`.
        rows: Selection of the result for this sink.
        stage: Prepares the rows of a batch; the commit follows when all outputs are staged.
        log: Log of a table, which records the batches that it holds; None for other sinks, which have no such
            record.
        passes: Number of times that staging and committing read all rows. A merge first looks for repeated
            keys, the console stops after a few rows, and a transform may read its rows several times.
        reads_when_staging: True if staging reads all rows; a transform may read only a few.
        check: Refuses rows that do not fit the target; reads and writes no rows.
        prepare: Creates objects that the sink needs, after all checks and before the first batch.
        memory: The table of a memory sink.
    """

    name: str
    rows: SinkRows
    stage: Callable[[DataFrame], Staged]
    log: TableLog | None = None
    passes: int = 1
    reads_when_staging: bool = False
    check: Callable[[], None] = lambda: None
    prepare: Callable[[], None] = lambda: None
    memory: MemoryTable | None = None


def build_outputs(pipeline: Pipeline, flow: Flow, step_done: StepDone = nothing_more) -> list[Output]:
    """Return one output per sink, in the order of the pipeline file."""
    return [build_output(pipeline, flow, place, step_done) for place in range(len(pipeline.spec.sinks))]


def table_log(pipeline: Pipeline, sink: DeltaSink, layout: Layout | None = None) -> TableLog:
    """Return the log of a sink's table, with enough history to restore the table to the checkpoint.

    Args:
        pipeline: The pipeline.
        sink: The sink.
        layout: Layout with the table, by default the one that its readers use.
    """
    properties = table_properties(retention_of(pipeline.spec))
    if sink.change_feed:
        properties[CHANGE_FEED] = "true"
    return TableLog((layout or pipeline.layout).table(sink.table), properties)


def build_output(pipeline: Pipeline, flow: Flow, place: int, step_done: StepDone = nothing_more) -> Output:
    """Return the output of one sink, by its position in the pipeline file."""
    sink = pipeline.spec.sinks[place]
    rows = SinkRows(flow.arrow_schema) if flow.before is not None else sink_rows(pipeline, place, flow.frame)
    output = _plain_output(pipeline, flow, sink, rows, step_done)
    if rows.expectations is not None:
        # Expectations are counted before any write.
        output = replace(output, passes=max(1, output.passes) + 1, reads_when_staging=True)
    if rows.transform is None:
        return output
    return replace(output, passes=max(1, output.passes) + 1, reads_when_staging=False)


def _plain_output(pipeline: Pipeline, flow: Flow, sink: Sink, rows: SinkRows, step_done: StepDone) -> Output:
    if sink.delta is not None:
        log = table_log(pipeline, sink.delta)
        writer = table_writer(sink.delta, log, rows.columns, flow.before, step_done)
        reads = writer.reads_when_staging
        return Output(sink.delta.table, rows, writer.stage, log, writer.passes, reads, writer.check)
    if sink.kafka is not None:
        send, topic = _at_commit(_sender(pipeline, sink.kafka, step_done)), sink.kafka
        return Output(sink.output, rows, send, check=lambda: check_key(topic, rows.columns))
    if sink.files is not None:
        return _files_output(pipeline, flow, sink, rows, step_done)
    if sink.postgres is not None:
        return _database_output(pipeline, sink, rows, step_done)
    if sink.foreach_batch is not None:
        call = _caller(pipeline, sink.foreach_batch, step_done)
        # The function may read its rows several times.
        return Output(sink.output, rows, _at_commit(call), passes=2)
    if sink.foreach is not None:
        return Output(sink.output, rows, _at_commit(_row_writer(pipeline, sink.foreach)))
    if sink.memory is not None:
        return _memory_output(pipeline, flow, sink, rows)
    return Output(sink.output, rows, _at_commit(_display(sink.chosen)), passes=0)


# Writes the rows of a batch; returns their number, if known.
_Write = Callable[[DataFrame, BatchCommit], int | None]


def _at_commit(write: _Write) -> Callable[[DataFrame], Staged]:
    """Return the staging function of a sink that writes everything at the commit."""
    return lambda frame: lambda commit: Written(True, write(frame, commit))


def _files_output(pipeline: Pipeline, flow: Flow, sink: Sink, rows: SinkRows, step_done: StepDone) -> Output:
    declared: FilesSink = sink.chosen
    path, spark = pipeline.layout.folder(declared.path), flow.frame.sparkSession

    def write(frame: DataFrame, commit: BatchCommit) -> int:
        count = write_files(frame, declared, path, commit.batch_id)
        step_done("files_named")
        return count

    def check() -> None:
        check_columns(spark.createDataFrame([], spark_columns(rows.columns)), declared, path)

    return Output(sink.output, rows, _at_commit(write), check=check)


def _database_output(pipeline: Pipeline, sink: Sink, rows: SinkRows, step_done: StepDone) -> Output:
    # Imported here, because most drivers need no database client.
    from tidemill.sinks.postgres_sink import PostgresTable

    table = PostgresTable(pipeline, sink.chosen, rows.columns, step_done)
    write = _at_commit(table.write)
    return Output(
        sink.output,
        rows,
        lambda frame: write(table.as_text(frame)),
        check=table.check,
        prepare=table.make_marks,
    )


def _sender(pipeline: Pipeline, sink: KafkaSink, step_done: StepDone) -> _Write:
    client = environment_client(pipeline.environment)

    def send(frame: DataFrame, _: BatchCommit) -> int:
        rows = send_rows(frame, sink, client)
        step_done("sent")
        return rows

    return send


def _display(sink: ConsoleSink) -> _Write:
    def show(frame: DataFrame, commit: BatchCommit) -> None:
        sys.stdout.write(f"batch {commit.batch_id}\n")
        frame.show(sink.rows, truncate=False)
        # Standard output is often a file, for which Python would buffer the lines.
        sys.stdout.flush()

    return show


def _memory_output(pipeline: Pipeline, flow: Flow, sink: Sink, rows: SinkRows) -> Output:
    is_whole = pipeline.spec.output_mode == "complete"
    table = MemoryTable(flow.frame.sparkSession, sink.chosen, rows.columns, is_whole=is_whole)
    put = _at_commit(lambda frame, commit: table.put(frame, commit.batch_id))
    return Output(sink.output, rows, put, memory=table)


def _row_writer(pipeline: Pipeline, sink: ForeachSink) -> _Write:
    writer = load_code(pipeline, sink.writer)
    return lambda frame, commit: write_rows(frame, writer, commit.batch_id)


def _caller(pipeline: Pipeline, sink: ForeachBatchSink, step_done: StepDone) -> _Write:
    function = load_code(pipeline, sink.function)

    def call(frame: DataFrame, commit: BatchCommit) -> int:
        call_with_batch(frame, function, commit)
        step_done("function_called")
        # The batch is cached for the function, so the count does not compute it again.
        return frame.count()

    return call
