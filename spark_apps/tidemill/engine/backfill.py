"""Carrying out a backfill plan: a batch read, the same transform, and writes that may be repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import takewhile

import structlog
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tidemill.backfill.chunks import cut_offsets
from tidemill.backfill.plan import BackfillPlan, hold_of
from tidemill.backfill.progress import ChunkDone, Found, Progress, ProgressFile
from tidemill.backfill.still_holds import check_still_holds
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.engine.batch import DrainedError
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.broken_lines import broken_lines
from tidemill.engine.cancelled import cancelled_by
from tidemill.engine.discovery import known_columns
from tidemill.engine.expectations import CheckedRows
from tidemill.engine.outputs import table_log
from tidemill.engine.quarantine_range import KEY, QuarantineRange
from tidemill.engine.range_rows import RangeRows, TableRows
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.task_watch import TaskWatch, looking, work_of
from tidemill.engine.turn import turn
from tidemill.ledger.entry import LedgerEntry, OffsetRange, Positions
from tidemill.ledger.read import History, open_table
from tidemill.ledger.standing import standing_commits
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT, SOURCE_NAME
from tidemill.payload.late_rows import LATE_SCHEMA
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone, Written, nothing_more
from tidemill.sinks.range_writer import KeyedTable, RangeTarget, prepare_table, replace_rows
from tidemill.sinks.table_log import TableLog
from tidemill.sources.joined_tables import newest_versions

log = structlog.get_logger()


def run_backfill(
    spark: SparkSession,
    run: RunContext,
    reporter: Reporter,
    plan: BackfillPlan,
    step_done: StepDone = nothing_more,
) -> None:
    """Compute the range, chunk by chunk, and bring it into each table. Running it again changes no row.

    Killed anywhere and repeated, it comes to the same end, without the chunks that are done; between any two
    steps each record is in a table or in the quarantine.

    1. A pipeline that has never run live is held back until all is done.
    2. The plan still holds; asked again before each commit.
    3. The offsets of the records, where they were chosen by time.
    4. Rows. Rejected records that the quarantine does not hold yet are added to it, and rows that violate
       an expectation.
    5. Each table: the rows of the range are replaced, in one commit.
    6. Records that are in the tables now leave the quarantine and the table of late ones: nothing of a range
       is late.

    Raises:
        UsageError: TIDE-BACK-016, if the plan does not hold any more.
        DrainedError: If a stop was asked for.
    """
    progress = ProgressFile(run.store, run.pipeline.layout, plan, run.run_id)
    if progress.now.finished_by == run.run_id:
        # Killed after its end: nothing is left to do.
        return
    if gone := _why_anew(run, plan, progress.now):
        log.warning("begins_anew", plan=plan.digest, reason=gone)
        progress.begin_anew()
    if not progress.now.done:
        progress.change(rules=run.code.rules, tables_read=newest_versions(run.pipeline))
    tasks = TaskWatch(run.pipeline, reporter, lambda: work_of(spark.sparkContext))
    # 1.
    with looking(tasks), cancelled_by(run.drain, spark), _held_back(run, plan):
        chunks = _chunks(spark, run, plan, progress, step_done)
        progress.change(chunks=len(chunks))
        for number, chunk in enumerate(chunks):
            if number in progress.now.done:
                continue
            if run.drain.requested:
                raise DrainedError
            begun = time.monotonic()
            attempt = _Attempt(spark, run, chunk, progress.now, step_done)
            result = attempt.carry_out()
            reporter.batch(result)
            seconds = time.monotonic() - begun
            progress.change(done={**progress.now.done, number: _done(run, chunk, attempt, result, seconds)})
            _tell(progress.now, number, result)
            step_done(f"chunk_done {number}")
    progress.change(finished_at=datetime.now(UTC), finished_by=run.run_id)


def _why_anew(run: RunContext, plan: BackfillPlan, progress: Progress) -> str:
    """Why the chunks that are done do not count: other models or code made them, or they are gone."""
    if progress.rules not in (None, run.code.rules):
        return "chunks that are done were made with another model or other code"
    for sink in run.pipeline.spec.delta_sinks:
        told = (chunk.versions.get(sink.table) for chunk in progress.done.values())
        versions = {version for version in told if version is not None}
        path = run.pipeline.layout.table(sink.table)
        if versions and not versions <= _standing(path, plan, min(versions)):
            return "commits of chunks that are done are gone"
    return ""


def _standing(path: str, plan: BackfillPlan, first: int) -> set[int]:
    newest_first = standing_commits(History(path, open_table(path)))
    since = takewhile(lambda commit: commit.version >= first, newest_first)
    return {c.version for c in since if c.entry is not None and c.entry.plan == plan.digest}


def _chunks(
    spark: SparkSession, run: RunContext, plan: BackfillPlan, progress: ProgressFile, step_done: StepDone
) -> list[BackfillPlan]:
    """The plan in its chunks, the same ones for each driver that goes on with it."""
    if plan.chunk is None:
        return [plan]
    if plan.chunk.records is None:
        return [plan.of_time(part, number) for number, part in enumerate(plan.parts)]
    found = progress.now.found
    if found is None:
        begun = time.monotonic()
        start, end = _Attempt(spark, run, plan, progress.now, step_done).find()
        found = Found(start=start or {}, end=end or {}, seconds=time.monotonic() - begun)
        progress.change(found=found)
    ranges = cut_offsets(plan.pipeline, found.start, found.end, plan.chunk.records)
    return [plan.of_records(start, end, number) for number, (start, end) in enumerate(ranges)]


def _done(
    run: RunContext, chunk: BackfillPlan, attempt: _Attempt, result: BatchResult, seconds: float
) -> ChunkDone:
    return ChunkDone(
        rows={output: written.rows or 0 for output, written in result.written.items()},
        versions={output: written.version for output, written in result.written.items()},
        poison=attempt.poison,
        records=chunk.records,
        seconds=seconds,
        run_id=run.run_id,
        at=datetime.now(UTC),
    )


def _tell(progress: Progress, number: int, result: BatchResult) -> None:
    rows = {output: written.rows for output, written in result.written.items()}
    left = None if progress.left is None else str(progress.left)
    log.info("chunk", number=number + 1, of=progress.chunks, rows=rows, left=left)


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
    """One attempt at a chunk, or at all of a plan.

    Args:
        spark: The session.
        run: The run.
        plan: The chunk.
        progress: What was done before.
        step_done: Told after each step.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: RunContext,
        plan: BackfillPlan,
        progress: Progress,
        step_done: StepDone,
    ) -> None:
        self._spark = spark
        self._run = run
        self._pipeline = run.pipeline
        self._plan = plan
        self._step_done = step_done
        # All tables and chunks are written with the same rows of those that are joined.
        self._joined = progress.tables_read or {}
        self._discovery = known_columns(spark.sparkContext, run.store, run.pipeline)
        self._range = RangeRows(spark, run.pipeline, plan, self._joined, self._discovery)
        self._range.left_out_before = progress.poison

    @property
    def poison(self) -> int:
        """Records that were left out because the transform fails at them."""
        return len(self._range.poison_records or ())

    def find(self) -> tuple[Positions | None, Positions | None]:
        """See that the plan still holds and the source has its records; returns their offsets."""
        # 2.
        self.check()
        self._range.find_records()
        self._step_done("checked")
        # 3.
        self._range.find_offsets(self._files())
        self._step_done("offsets_found")
        return self._range.start, self._range.end

    def carry_out(self) -> BatchResult:
        """Compute the rows and write them."""
        self.find()
        # 4. to 6.
        return self._write()

    def check(self) -> None:
        """See that the plan still holds."""
        check_still_holds(self._run.store, self._pipeline, self._plan)

    def _write(self) -> BatchResult:
        files = self._files()
        rows = self._range.result(files)
        tables = self._range.tables(rows)
        for each in tables:
            prepare_table(each.taken.of(rows), self._target(each))
        spec = self._pipeline.spec
        lines = broken_lines(self._spark, self._pipeline, files)
        with ExitStack() as cached:
            if spec.rejects_records or spec.has_expectations:
                # Computed before anything is written, to know what is rejected.
                rows = self._range.computed(files)
                cached.callback(rows.unpersist)
                self._discovery.refuse_new()
            table = KeyedTable(TableLog(files.path), self._entry(QUARANTINE_OUTPUT), self._turn)
            quarantine = QuarantineRange(self._spark, files, lines, self._range.records, table)
            checked = self._range.checked(tables, rows, files, {"plan": self._plan.digest}, cached)
            added = quarantine.add([part for one in checked.values() for part in one.quarantined])
            self._step_done("quarantine_added")
            written = self._replace_all(rows, tables, checked)
        self._drop_accepted(quarantine)
        self._step_done("quarantine_dropped")
        self._drop_late()
        counts = {name: one.counts for name, one in checked.items()}
        return BatchResult(None, written, added, expectations=counts)

    def _files(self) -> Quarantine:
        path = self._pipeline.layout.quarantine(self._pipeline.name)
        return Quarantine.at(self._spark.sparkContext, path, self._run.run_id)

    def _target(self, table: TableRows) -> RangeTarget:
        log = table_log(self._pipeline, table.sink)
        return RangeTarget(log, table.taken.columns, table.sink, self._turn)

    def _turn(self) -> AbstractContextManager[None]:
        return turn(self._run.store, self._pipeline.layout.turn(self._pipeline.name), self._run.run_id)

    def _replace_all(
        self, rows: DataFrame, tables: Sequence[TableRows], checked: Mapping[str, CheckedRows]
    ) -> dict[str, Written]:
        # A transform may use its rows several times.
        reads = sum(1 if table.taken.transform is None else 2 for table in tables)
        shared = reads > 1 and not rows.is_cached
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK) if shared else rows
        try:
            return {table.sink.table: self._replace(table, rows, checked) for table in tables}
        finally:
            if shared:
                rows.unpersist()

    def _replace(self, table: TableRows, result: DataFrame, checked: Mapping[str, CheckedRows]) -> Written:
        name = table.sink.table
        entry, condition = self._entry(name), self._range.condition_of(name)
        if name in checked:
            rows = checked[name].rows
            entry = entry.model_copy(update={"expectations": checked[name].counts})
        else:
            rows = self._range.rows_of(table, result)
        written = replace_rows(rows, self._target(table), entry, condition, self.check)
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
        accepted = quarantine.accepted_now()
        decided = None if accepted is None else self._range.decided(self._files())
        if accepted is not None and decided is not None:
            accepted = accepted.join(quarantine.with_rejected(decided), KEY, "left_semi")
        if accepted is not None:
            quarantine.drop(accepted)

    def _entry(self, output: str) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self._pipeline.name,
            output=output,
            mode="backfill",
            run_id=self._run.run_id,
            plan=self._plan.digest,
            chunk=self._plan.number,
            # Windows and times say nothing of where in the topic their records end.
            sources={SOURCE_NAME: OffsetRange(start=self._range.start, end=self._range.end)}
            if self._plan.by in ("record", "everything")
            else {},
            tables_read=self._joined or None,
            source_schemas=self._discovery.identities,
            poison_records=self._range.poison_records,
            code=self._run.code,
        )
