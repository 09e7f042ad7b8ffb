"""The outputs of a pipeline: each sink with its name, condition and way of writing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemill.checkpoint.retention.rule import retention_of, table_properties
from tidemill.engine.flow import Flow
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit, StepDone, Written, nothing_more
from tidemill.sinks.kafka_sink import send_rows
from tidemill.sinks.table_log import TableLog
from tidemill.sinks.table_writer import table_writer
from tidemill.sources.kafka_clients import environment_client
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink, Sink

# Writes one batch of one output; the entry is the batch's, with this output's name.
Write = Callable[[DataFrame, LedgerEntry], Written]


@dataclass(frozen=True)
class Output:
    """One sink of one pipeline.

    Args:
        name: Table, `kafka:<topic>` or `console`; the `output` of its ledger entries.
        where: SQL condition on the rows.
        write: Writes one batch.
        passes: How often writing reads all rows of the batch: a merge looks for repeated keys first, the
            console stops after a few rows.
    """

    name: str
    where: str | None
    write: Write
    passes: int = 1


def build_outputs(
    pipeline: Pipeline, generation: str, flow: Flow, step_done: StepDone = nothing_more
) -> list[Output]:
    """One output per sink, in the order of the file."""
    return [_output(pipeline, generation, flow, sink, step_done) for sink in pipeline.spec.sinks]


def table_log(pipeline: Pipeline, sink: DeltaSink) -> TableLog:
    """The log of a sink's table, which is made so that it can be brought back as far as the checkpoint."""
    return TableLog(pipeline.layout.table(sink.table), table_properties(retention_of(pipeline.spec)))


def _output(pipeline: Pipeline, generation: str, flow: Flow, sink: Sink, step_done: StepDone) -> Output:
    if sink.delta is not None:
        return _table_output(pipeline, generation, flow, sink.delta, step_done)
    if sink.kafka is not None:
        kafka = sink.kafka
        client = environment_client(pipeline.environment)

        def send(frame: DataFrame, _: LedgerEntry) -> Written:
            send_rows(frame, kafka, client)
            return Written(True)

        return Output(f"kafka:{kafka.topic}", kafka.where, send)
    rows = sink.chosen.rows

    def show(frame: DataFrame, entry: LedgerEntry) -> Written:
        sys.stdout.write(f"batch {entry.batch_id}\n")
        frame.show(rows, truncate=False)
        # A driver's standard output is often a file, where lines would wait for a full buffer.
        sys.stdout.flush()
        return Written(True)

    return Output("console", sink.chosen.where, show, passes=0)


def _table_output(
    pipeline: Pipeline, generation: str, flow: Flow, sink: DeltaSink, step_done: StepDone
) -> Output:
    app_id = transaction_id(pipeline.name, generation, sink.table)
    writer = table_writer(sink, table_log(pipeline, sink), flow.arrow_schema, flow.before, step_done)

    def write(frame: DataFrame, entry: LedgerEntry) -> Written:
        if entry.batch_id is None:
            raise ValueError("a batch of a stream has a number")
        return writer.write(frame, BatchCommit(app_id, entry.batch_id, entry))

    return Output(sink.table, sink.where, write, passes=2 if sink.mode == "merge" else 1)
