"""Running a pipeline as a stream or an incremental run: one query, from start to stop."""

from __future__ import annotations

from typing import Literal

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tidemill.backfill.row_origin import check_declared, keep_origin
from tidemill.engine.batch import BatchProcessor, DrainedError
from tidemill.engine.batch_writer import BatchWriter
from tidemill.engine.broken_lines import broken_lines
from tidemill.engine.file_sinks import claim_folders
from tidemill.engine.flow import build_flow
from tidemill.engine.half_written import Begun, StartAgainError
from tidemill.engine.outputs import build_outputs
from tidemill.engine.plan_check.check import refuse_or_warn
from tidemill.engine.rejected_records import RejectedRecords
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.running_query import RunningQuery, drain_queries, log_ends_of_queries
from tidemill.engine.source_watch import SourceWatch
from tidemill.engine.state_operators import StateOperators
from tidemill.engine.tables_read import TablesRead
from tidemill.engine.task_watch import TaskWatch, work_of
from tidemill.engine.turn import Waiting
from tidemill.names import query_name
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.sources.read import read_stream
from tidemill.spec.units import format_duration

# How often the driver looks whether the query ended or a stop was asked for, in seconds: the wait that
# a person notices after `stop`, against wake-ups of an idle process.
POLL_SECONDS = 0.25

log = structlog.get_logger()

Ending = Literal["finished", "drained", "forced"]


def run_query(
    spark: SparkSession, run: RunContext, reporter: Reporter, step_done: StepDone = nothing_more
) -> Ending:
    """Run until the source is read (incremental), a drain, or an error.

    A batch that an earlier driver has begun is finished with the tables that it was begun with, by a query
    of its own.

    Raises:
        BaseException: What ended the query: our own error where one caused it, else Spark's.
    """
    begun: Begun | None = None
    while True:
        try:
            return _run_once(spark, run, reporter, step_done, begun)
        except StartAgainError as again:
            begun = again.begun


def _run_once(
    spark: SparkSession, run: RunContext, reporter: Reporter, step_done: StepDone, begun: Begun | None
) -> Ending:
    running = start_query(spark, run, reporter, step_done, begun)
    source = SourceWatch(run.pipeline, reporter)
    tasks = TaskWatch(run.pipeline, reporter, lambda: work_of(spark.sparkContext))
    ending: Ending = "finished"
    stopped = False
    try:
        while ending == "finished" and running.query.isActive:
            if run.drain.requested:
                ending = drain_queries([running], run.pipeline.environment.spec.drain_time)
            else:
                running.query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]  # may be a fraction
                source.look()
                tasks.look()
    except StreamingQueryException:
        pass  # raised below, as what caused it
    finally:
        stopped = running.stop()
        log_ends_of_queries(spark, True)
    if ending == "forced" or not stopped:
        # A batch that a forced stop interrupted has failed, too; it is not what ended the query.
        return "forced"
    failure = running.processor.failure or running.query.exception()
    if isinstance(failure, DrainedError):
        return "drained"
    if failure is not None:
        raise failure
    return ending


def start_query(
    spark: SparkSession,
    run: RunContext,
    reporter: Reporter,
    step_done: StepDone,
    begun: Begun | None = None,
) -> RunningQuery:
    """Build the flow, check that Spark can run it, and start its query.

    Raises:
        SpecError: TIDE-PLAN-…, before anything is started.
    """
    pipeline = run.pipeline
    quarantine = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), run.run_id)
    versions = None if begun is None else begun.versions
    flow = build_flow(pipeline, read_stream(spark, pipeline), quarantine, versions)
    for warning in refuse_or_warn(flow.findings):
        log.warning("transform", **warning.error.as_document())
    check_declared(pipeline, flow.origin)
    keep_origin(run.store, pipeline, flow.origin)
    rejected = None
    if pipeline.spec.rejects_records:
        lines = broken_lines(spark, pipeline, quarantine)
        rejected = RejectedRecords(quarantine, lines, step_done)
    outputs = build_outputs(pipeline, flow, step_done)
    claim_folders(spark, run, outputs)
    tables = TablesRead(spark, pipeline) if pipeline.spec.tables else None
    writer = BatchWriter(outputs, rejected, StateOperators(spark), tables)
    others = Waiting(run.store, pipeline.layout.turn(pipeline.name), run.drain)
    processor = BatchProcessor(writer, run.entry, run.drain, others, reporter.batch)
    processor.begun = begun
    processor.before_refusal = lambda: log_ends_of_queries(spark, False)
    query = (
        flow.frame.writeStream.queryName(query_name(pipeline.name))
        .outputMode(pipeline.spec.output_mode)
        .option("checkpointLocation", run.checkpoint)
        .foreachBatch(processor)
    )
    if run.mode == "incremental":
        query = query.trigger(availableNow=True)
    else:
        query = query.trigger(processingTime=format_duration(pipeline.spec.run.trigger))
    return RunningQuery(query.start(), processor, reporter)
