"""Carrying out a backfill plan: a batch read, the same transform, and writes that may be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.backfill.plan import BackfillPlan, hold_of
from tidemill.backfill.still_holds import check_still_holds
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.broken_lines import broken_lines
from tidemill.engine.cancelled import cancelled_by
from tidemill.engine.discovery import known_columns
from tidemill.engine.outputs import table_log
from tidemill.engine.quarantine_range import KEY, PLACE, QuarantineRange
from tidemill.engine.range_rows import RangeRows, TableRows
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.task_watch import TaskWatch, looking, work_of
from tidemill.engine.turn import turn
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT, SOURCE_NAME
from tidemill.payload.late_rows import LATE_SCHEMA
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone, Written, nothing_more
from tidemill.sinks.range_writer import KeyedTable, RangeTarget, prepare_table, replace_rows
from tidemill.sinks.table_log import TableLog
from tidemill.sources.joined_tables import newest_versions


def run_backfill(
    spark: SparkSession,
    run: RunContext,
    reporter: Reporter,
    plan: BackfillPlan,
    step_done: StepDone = nothing_more,
) -> None:
    """Compute the range once and bring it into each table. Running it again changes no row.

    Killed anywhere and repeated, it comes to the same end; between any two steps each record is in a table
    or in the quarantine.

    1. A pipeline that has never run live is held back until all is done.
    2. The plan still holds; asked again before each commit.
    3. The offsets of the records, where they were chosen by time.
    4. Rows. Rejected records that the quarantine does not hold yet are added to it.
    5. Each table: the rows of the range are replaced, in one commit.
    6. Records that are in the tables now leave the quarantine and the table of late ones: nothing of a range
       is late.

    Raises:
        UsageError: TIDE-BACK-016, if the plan does not hold any more.
        DrainedError: If a stop was asked for.
    """
    attempt = _Attempt(spark, run, plan, step_done)
    tasks = TaskWatch(run.pipeline, reporter, lambda: work_of(spark.sparkContext))
    # 1.
    with looking(tasks), cancelled_by(run.drain, spark), _held_back(run, plan):
        # 2.
        attempt.check()
        attempt.find_records()
        step_done("checked")
        # 3.
        attempt.find_offsets()
        step_done("offsets_found")
        # 4. to 6.
        result = attempt.write()
    reporter.batch(result)


@contextmanager
def _held_back(run: RunContext, plan: BackfillPlan) -> Iterator[None]:
    """Let no first start come between: it would begin where the source begins, and write these rows again.

    The hold refuses those to come, the epoch fences off one that has passed the gate already. A backfill that
    fails leaves its hold, which the same command takes up again.
    """
    if plan.live is not None:
        yield
        return
    layout, name = run.pipeline.layout, run.pipeline.name
    command = f"tidemill backfill apply {name} --plan {plan.digest}"
    why = "a backfill fills the tables of a pipeline that has never run"
    hold = hold_of(plan.digest)
    take_hold(run.store, layout, name, Hold(id=hold, by="backfill", why=why, to_do=command))
    claim_epoch(run.store, layout, name, run.run_id)
    yield
    drop_hold(run.store, layout, name, hold)


class _Attempt:
    """One attempt at a plan."""

    def __init__(self, spark: SparkSession, run: RunContext, plan: BackfillPlan, step_done: StepDone) -> None:
        self._spark = spark
        self._run = run
        self._pipeline = run.pipeline
        self._plan = plan
        self._step_done = step_done
        # All tables are written with the same rows of those that are joined.
        self._joined = newest_versions(run.pipeline)
        self._discovery = known_columns(spark.sparkContext, run.store, run.pipeline)
        self._range = RangeRows(spark, run.pipeline, plan, self._joined, self._discovery)

    def check(self) -> None:
        """See that the plan still holds."""
        check_still_holds(self._run.store, self._pipeline, self._plan)

    def find_records(self) -> None:
        """See that the source still has the records."""
        self._range.find_records()

    def find_offsets(self) -> None:
        """Narrow the range of offsets to the records that were chosen by time."""
        self._range.find_offsets(self._files())

    def write(self) -> BatchResult:
        """Compute the rows and write them."""
        files = self._files()
        rows = self._range.result(files)
        tables = self._range.tables(rows)
        for each in tables:
            prepare_table(each.taken.of(rows), self._target(each))
        if not self._pipeline.spec.rejects_records:
            written = self._replace_all(rows, tables)
            self._drop_late()
            return BatchResult(None, written, 0)
        lines = broken_lines(self._spark, self._pipeline, files)
        # Computed before anything is written, to know what is rejected.
        rows = self._range.computed(files)
        try:
            table = KeyedTable(TableLog(files.path), self._entry(QUARANTINE_OUTPUT), self._turn)
            quarantine = QuarantineRange(self._spark, files, lines, self._range.records, table)
            self._discovery.refuse_new()
            added = quarantine.add()
            self._step_done("quarantine_added")
            written = self._replace_all(rows, tables)
        finally:
            rows.unpersist()
        self._drop_accepted(quarantine)
        self._step_done("quarantine_dropped")
        self._drop_late()
        return BatchResult(None, written, added)

    def _files(self) -> Quarantine:
        path = self._pipeline.layout.quarantine(self._pipeline.name)
        return Quarantine.at(self._spark.sparkContext, path, self._run.run_id)

    def _target(self, table: TableRows) -> RangeTarget:
        log = table_log(self._pipeline, table.sink)
        return RangeTarget(log, table.taken.columns, table.sink, self._turn)

    def _turn(self) -> AbstractContextManager[None]:
        return turn(self._run.store, self._pipeline.layout.turn(self._pipeline.name), self._run.run_id)

    def _replace_all(self, rows: DataFrame, tables: Sequence[TableRows]) -> dict[str, Written]:
        # A transform may use its rows several times.
        reads = sum(1 if table.taken.transform is None else 2 for table in tables)
        shared = reads > 1 and not rows.is_cached
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK) if shared else rows
        try:
            return {table.sink.table: self._replace(table, rows) for table in tables}
        finally:
            if shared:
                rows.unpersist()

    def _replace(self, table: TableRows, result: DataFrame) -> Written:
        name = table.sink.table
        rows, condition = self._range.rows_of(table, result), self._range.condition_of(name)
        written = replace_rows(rows, self._target(table), self._entry(name), condition, self.check)
        self._step_done(f"replaced {name}")
        return written

    def _drop_late(self) -> None:
        """Late records that are in the tables now leave theirs, also if `late` has been changed since."""
        layout, name = self._pipeline.layout, self._pipeline.name
        files = Quarantine.at(self._spark.sparkContext, layout.late(name), self._run.run_id, LATE_SCHEMA)
        table = KeyedTable(TableLog(files.path), self._entry(LATE_OUTPUT), self._turn)
        self._drop_accepted(QuarantineRange(self._spark, files, None, self._range.records, table))
        self._step_done("late_dropped")

    def _drop_accepted(self, quarantine: QuarantineRange) -> None:
        """Of windows, only events whose windows are all in the range leave the table."""
        accepted = quarantine.accepted_now()
        if accepted is not None and self._plan.condition is not None:
            # They were accepted, so this reads them once more for their times.
            places = (F.col(name).alias(column) for name, column in PLACE.items())
            counted = self._range.decoded(self._files()).where(self._plan.counted or self._plan.condition)
            accepted = counted.select(*places).join(accepted, KEY, "left_semi")
        if accepted is not None:
            quarantine.drop(accepted)

    def _entry(self, output: str) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self._pipeline.name,
            output=output,
            mode="backfill",
            run_id=self._run.run_id,
            plan=self._plan.digest,
            # Windows and times say nothing of where in the topic their records end.
            sources={SOURCE_NAME: OffsetRange(start=self._range.start, end=self._range.end)}
            if self._plan.by in ("record", "everything")
            else {},
            tables_read=self._joined or None,
            source_schemas=self._discovery.identities,
            poison_records=self._range.poison_records,
            code=self._run.code,
        )
