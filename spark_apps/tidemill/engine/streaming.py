"""A run of a pipeline as a stream or an incremental run: one query, from start to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.batch import BatchProcessor, DrainedError
from tidemill.engine.batch_writer import BatchResult, BatchWriter
from tidemill.engine.checked_flow import checked_flow
from tidemill.engine.classify import classify
from tidemill.engine.discovery import discover, lacks_first_files
from tidemill.engine.file_names import FileNamesReport, report_unread_files
from tidemill.engine.file_records import FileRecords
from tidemill.engine.file_sinks import claim_folders
from tidemill.engine.flow import Collectors, Flow
from tidemill.engine.half_written import Begun, QueryStart, StartAgainError, files_gone
from tidemill.engine.joined_files import FILES_CHANGED
from tidemill.engine.joined_read import JoinedRead
from tidemill.engine.late_split import LateSplit
from tidemill.engine.outputs import build_outputs
from tidemill.engine.plan_check.analysed import root_of
from tidemill.engine.plan_check.stream_rules import keeps_no_state
from tidemill.engine.poison_of_batch import known_poison, left_out_of, record_poison
from tidemill.engine.records_aside import RecordsAside
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.running_query import Running, RunningQuery, log_ends_of_queries
from tidemill.engine.source_watch import SourceWatch
from tidemill.engine.state_operators import StateOperators
from tidemill.engine.stream_watermarks import StreamWatermarks
from tidemill.engine.task_watch import TaskWatch, work_of
from tidemill.engine.turn import Waiting
from tidemill.engine.unbatched import start_unbatched
from tidemill.engine.untimed import has_windows, untimed_rows
from tidemill.engine.warm_start import late_before, past_to_read, without_written
from tidemill.errors import UnavailableError
from tidemill.ledger.quarantine_rows import offsets_between
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT, query_name
from tidemill.payload.late_rows import LATE_SCHEMA, LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.sources.file_listing import NO_FILES
from tidemill.sources.read import read_streams
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Interval at which the driver checks for the end of the query or a requested stop, in seconds. It limits the
# delay that an operator notices after `stop`, without waking an idle process too often.
POLL_SECONDS = 0.25

log = structlog.get_logger()

Ending = Literal["finished", "drained", "forced"]


def run_query(
    spark: SparkSession,
    run: RunContext,
    reporter: Reporter,
    step_done: StepDone = nothing_more,
    begun: Begun | None = None,
) -> Ending:
    """Run until the source is read (incremental), a drain, or an error.

    If the generation begins with a past, a separate query reads that first.

    If an earlier driver has begun a batch, a separate query finishes it with the tables with which it began.
    If a batch finds other files in a joined folder than its query has listed, the next query lists them again
    and repeats the batch. If a batch fails in the transform, it is repeated without the poison records,
    provided the pipeline sets them aside.

    Raises:
        BaseException: The error that ended the query: Tidemill's if there is one, otherwise Spark's.
    """
    start, changed = QueryStart(begun), _ChangedFiles(run)
    while True:
        if run.mode == "incremental" and lacks_first_files(spark, run.store, run.pipeline):
            log.info("nothing_to_read", pipeline=run.pipeline.name)
            report_unread_files(spark, run.pipeline, reporter)
            return "finished"
        past = past_to_read(run)
        try:
            ending = _run_once(spark, run, reporter, step_done, start)
            if past is None or ending != "finished":
                return ending
            # The same checkpoint continues with live data.
            start = QueryStart()
            continue
        except StartAgainError as again:
            start = again.start
            continue
        except Exception as error:  # noqa: BLE001  # raised again, unless records are to blame
            failure = error
        # Outside the `except`, because `failure` would become the context of an error here and be taken for
        # it.
        if changed.may_start_again(failure):
            start = replace(start, listed_for=None)
            continue
        record_poison(spark, run, reporter, failure, step_done)


class _ChangedFiles:
    """Decides if a query may start again after its batch has met a changed file of a joined folder.

    Spark may read the folder before the batch checks that the listing is the newest one. If a batch meets a
    changed file twice, it fails, so that the driver waits before the next attempt.

    Args:
        run: The run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._batch: int | None = None

    def may_start_again(self, failure: Exception) -> bool:
        """Return True if a changed file has ended the query, for the first time in this batch."""
        if not self._run.pipeline.spec.joined_files or classify(failure).error_id != FILES_CHANGED:
            return False
        batch = CheckpointBatches(self._run.store, self._run.checkpoint).last_planned()
        if batch is None or batch == self._batch:
            return False
        log.info("joined_files_changed", pipeline=self._run.pipeline.name, batch_id=batch)
        self._batch = batch
        return True


def _run_once(
    spark: SparkSession, run: RunContext, reporter: Reporter, step_done: StepDone, start: QueryStart
) -> Ending:
    running: Running = (
        start_unbatched(spark, run, reporter)
        if run.is_without_batches
        else start_query(spark, run, reporter, step_done, start)
    )
    source = SourceWatch(run.pipeline, reporter)
    tasks = TaskWatch(run.pipeline, reporter, lambda: work_of(spark.sparkContext))
    ending: Ending = "finished"
    stopped = False
    try:
        reporter.query.begins(running.query, run.pipeline.name, run.pipeline.spec, run.run_id)
        while ending == "finished" and running.query.isActive:
            if run.drain.requested:
                ending = running.drain(run.pipeline.environment.spec.drain_time)
            else:
                running.query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]  # may be a fraction
                running.look()
                source.look()
                tasks.look()
                reporter.query.look(running.query)
    except StreamingQueryException:
        pass  # raised below, with its original cause
    finally:
        stopped = running.stop()
        log_ends_of_queries(spark, True)
    if ending == "forced" or not stopped:
        # A batch that a forced stop interrupts also fails, but that did not end the query.
        return "forced"
    failure = running.failure or running.query.exception()
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
    start: QueryStart = QueryStart(),  # noqa: B008  # immutable
) -> RunningQuery:
    """Build the flow, check that Spark can run it, and start its query.

    Raises:
        SpecError: TIDE-PLAN-…, before anything is started.
        DataError: TIDE-SINK-001, if a table cannot take the rows; nothing has been read or written then.
    """
    pipeline = run.pipeline
    quarantine = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), run.run_id)
    late = Quarantine.at(spark.sparkContext, pipeline.layout.late(pipeline.name), run.run_id, LATE_SCHEMA)
    late_rows = _late_rows(pipeline, late)
    discovery = discover(spark, run.store, pipeline, run.run_id, step_done)
    poison = known_poison(run)
    names = FileNamesReport(spark, pipeline)
    untimed = untimed_rows(spark.sparkContext, pipeline)
    records = reporter.file_records = FileRecords.of(spark.sparkContext, pipeline)
    collectors = Collectors(
        quarantine,
        late_rows,
        discovery.columns,
        left_out_of(poison),
        names.collected,
        untimed,
        records.counted,
    )
    past = past_to_read(run)
    streams = read_streams(spark, pipeline, past=past, checkpoint=run.checkpoint)
    flow = _flow(run, streams, collectors, start.begun)
    flow = without_written(run, flow)
    asides = _asides(pipeline, quarantine, late, step_done)
    if past is not None:
        for aside in asides:
            aside.known = offsets_between(aside.table.path, past.start, past.end)
    writer = _batch_writer(spark, run, flow, asides, step_done)
    reporter.memory_tables = writer.memory_tables
    if pipeline.spec.joined:
        writer.joined = JoinedRead(spark, pipeline, run.store, start)
    writer.discovery = discovery if discovery.columns else None
    writer.poison = poison
    writer.untimed = untimed if has_windows(flow.frame) else None
    writer.watermarks = StreamWatermarks.of(spark, run, flow.frame)
    if writer.watermarks is not None:
        reporter.knows_watermarks(writer.watermarks.known())
    others = Waiting(run.store, pipeline.layout.turn(pipeline.name), run.drain)

    def on_result(result: BatchResult) -> None:
        records.batch_ended(result.batch_id)
        reporter.batch(result)

    processor = BatchProcessor(writer, run.entry, run.drain, others, on_result)
    processor.begun = start.begun
    processor.before_refusal = lambda: log_ends_of_queries(spark, False)
    query = (
        flow.frame.writeStream.queryName(query_name(pipeline.name))
        .outputMode(pipeline.spec.output_mode)
        .option("checkpointLocation", run.checkpoint)
        .foreachBatch(processor)
    )
    return RunningQuery(_with_trigger(query, run, past is not None).start(), processor, reporter, names)


def _flow(
    run: RunContext, streams: Mapping[str, DataFrame], collectors: Collectors, begun: Begun | None
) -> Flow:
    """Build the flow, with the joined contents of the begun batch if there is one to finish."""
    if begun is None:
        return checked_flow(run, streams, collectors)
    try:
        return checked_flow(run, streams, collectors, begun.joined)
    except UnavailableError as error:
        if error.error_id not in (NO_FILES, FILES_CHANGED):
            raise
        raise files_gone(run.pipeline.name, begun, error) from error


def _with_trigger(query: DataStreamWriter, run: RunContext, reads_past: bool) -> DataStreamWriter:
    declared = run.pipeline.spec.run
    kind = "available_now" if reads_past else declared.trigger_of(run.mode)
    if kind == "once":
        return query.trigger(once=True)
    if kind == "available_now":
        return query.trigger(availableNow=True)
    return query.trigger(processingTime=format_duration(declared.trigger))


def _late_rows(pipeline: Pipeline, table: Quarantine) -> LateRows | None:
    event_time = pipeline.spec.event_time if pipeline.spec.keeps_late else None
    return None if event_time is None else LateRows(event_time.column, table)


def _asides(
    pipeline: Pipeline, quarantine: Quarantine, late: Quarantine, step_done: StepDone
) -> list[RecordsAside]:
    """Return the outputs for records that are set aside."""
    rejects = pipeline.spec.rejects_records
    rejected = RecordsAside(QUARANTINE_OUTPUT, quarantine, may_come=rejects, step_done=step_done)
    behind = RecordsAside(LATE_OUTPUT, late, may_come=pipeline.spec.keeps_late, step_done=step_done)
    return [aside for aside in (rejected, behind) if aside.output in pipeline.spec.asides]


def _batch_writer(
    spark: SparkSession, run: RunContext, flow: Flow, asides: list[RecordsAside], step_done: StepDone
) -> BatchWriter:
    """Return the writer of the batches, after checking all tables and claiming the folders of file sinks."""
    pipeline = run.pipeline
    outputs = build_outputs(pipeline, flow, step_done)
    for output in outputs:
        output.check()
    for output in outputs:
        output.prepare()
    claim_folders(spark, run, outputs)
    state = StateOperators(spark, none=keeps_no_state(root_of(flow.frame)))
    late = LateSplit(spark, flow.origin.window, late_before(run)) if pipeline.spec.keeps_late else None
    return BatchWriter(outputs, asides, state, late)
