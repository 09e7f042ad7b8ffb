"""Carrying out a backfill plan: a batch read, the same transform, and writes that may be repeated."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tidemill.backfill.plan import BackfillPlan, TablePlan
from tidemill.engine.batch import BatchResult
from tidemill.engine.flow import Flow, build_flow
from tidemill.engine.outputs import table_log
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.task_watch import TaskWatch, looking, work_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.batch_commit import Written
from tidemill.sinks.range_writer import RangeTarget, insert_new, merge_rows, replace_rows
from tidemill.sinks.table_log import TableLog
from tidemill.sources.read import SOURCE_NAME, read_batch

# A rejected record is one place in a topic; a backfill finds the same ones again.
QUARANTINE_KEY = ["kafka_topic", "kafka_partition", "kafka_offset"]


def run_backfill(spark: SparkSession, run: RunContext, reporter: Reporter, plan: BackfillPlan) -> None:
    """Compute the range once and bring it into each table. Running it again changes no row.

    1. Each table: the rows of the range are replaced or merged, in one commit per table.
    2. Rejected records that the quarantine does not hold yet are added.
    """
    pipeline = run.pipeline
    quarantine = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), run.run_id)
    records = read_batch(spark, pipeline, plan.start_offsets, plan.end_offsets)
    flow = build_flow(pipeline, records, quarantine, plan.condition)
    # Several tables share one evaluation; so do a merge's look for repeated keys and its write.
    rows = flow.frame.persist(StorageLevel.MEMORY_AND_DISK)
    tasks = TaskWatch(pipeline, reporter, lambda: work_of(spark.sparkContext))
    try:
        with looking(tasks):
            # 1.
            written = {table.table: _write(rows, flow, run, plan, table) for table in plan.tables}
            # 2.
            quarantined = _quarantine(spark, quarantine, _entry(run, plan, QUARANTINE_OUTPUT))
    finally:
        rows.unpersist()
    reporter.batch(BatchResult(None, written, quarantined))


def _write(rows: DataFrame, flow: Flow, run: RunContext, plan: BackfillPlan, table: TablePlan) -> Written:
    sink = next(sink for sink in run.pipeline.spec.delta_sinks if sink.table == table.table)
    log = table_log(run.pipeline, sink)
    target = RangeTarget(log, flow.arrow_schema, sink)
    chosen = rows if sink.where is None else rows.where(sink.where)
    entry = _entry(run, plan, table.table)
    if table.action == "merge":
        return merge_rows(chosen, target, entry)
    return replace_rows(chosen, target, entry, table.condition)


def _quarantine(spark: SparkSession, quarantine: Quarantine, entry: LedgerEntry) -> int:
    parts = quarantine.take()
    if not parts:
        return 0
    log = TableLog(quarantine.path)
    log.create(QUARANTINE_SCHEMA)
    rejected = spark.read.parquet(*(f"{quarantine.path}/{part.name}" for part in parts))
    return insert_new(rejected, log, QUARANTINE_KEY, entry)


def _entry(run: RunContext, plan: BackfillPlan, output: str) -> LedgerEntry:
    return LedgerEntry(
        pipeline=run.pipeline.name,
        output=output,
        mode="backfill",
        run_id=run.run_id,
        sources={SOURCE_NAME: OffsetRange(start=plan.start_offsets, end=plan.end_offsets)},
        code=run.code,
    )
