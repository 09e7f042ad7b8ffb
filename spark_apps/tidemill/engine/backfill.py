"""The run of a backfill plan, chunk by chunk, from the point that an earlier driver reached."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile

import structlog
from pyspark.sql import SparkSession

from tidemill.backfill.chunks import cut_offsets
from tidemill.backfill.plan import BackfillPlan, hold_of
from tidemill.backfill.progress import ChunkDone, Found, Progress, ProgressFile
from tidemill.backfill.staging import drop_staged, staging_of
from tidemill.backfill.still_holds import check_still_holds
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.engine.batch import DrainedError
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.cancelled import cancelled_by
from tidemill.engine.chunk_attempt import ChunkAttempt
from tidemill.engine.file_names import report_unread_files
from tidemill.engine.joined_files import files_changed, keep_listings
from tidemill.engine.publish import StagedPlan, publish_staged
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.task_watch import TaskWatch, looking, work_of
from tidemill.ledger.read import History, open_table
from tidemill.ledger.standing import standing_commits
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.sources.joined_tables import newest_versions

log = structlog.get_logger()


def run_backfill(
    spark: SparkSession,
    run: RunContext,
    reporter: Reporter,
    plan: BackfillPlan,
    step_done: StepDone = nothing_more,
) -> None:
    """Compute the range, chunk by chunk, and write it into each table. Running it again changes no row.

    A backfill that was killed at any point can be repeated. It skips finished chunks and gives the same
    result. Between any two steps each record is in a table or in the quarantine.

    1. Hold a pipeline that has never run live, until the backfill is finished.
    2. Check that the plan still holds; repeat the check before each commit.
    3. Find the offsets of the records, if they were selected by time.
    4. Compute the rows. Add rejected records and rows that violate an expectation to the quarantine, unless
       it already has them.
    5. Replace the rows of the range in each table, in one commit.
    6. Remove records that are now in the tables from the quarantine and from the late table. No record of a
       backfilled range is late.
    7. If rows are published later, all steps so far wrote into a staging area, and the backfill ends there
       until an operator publishes it; then `publish_staged` copies it into the tables. In this case step 4
       begins by removing rows that a killed chunk has set aside, because the published tables do not record
       them.

    Raises:
        UsageError: TIDE-BACK-016, if the plan no longer holds.
        DrainedError: If a stop was requested.
    """
    progress = ProgressFile(run.store, run.pipeline.layout, plan, run.run_id)
    if progress.now.finished_by == run.run_id:
        # The driver was killed after its last step, so no work is left.
        return
    if plan.publish == "later":
        # Checked before staged rows are discarded, because the change that breaks the plan may be reverted.
        check_still_holds(run.store, run.pipeline, plan)
    _begin(spark, run, plan, progress)
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
            attempt = ChunkAttempt(spark, run, chunk, progress.now, step_done)
            result = attempt.carry_out()
            # Staged rows are in no table yet.
            reporter.batch(result if plan.publish == "now" else replace(result, written={}))
            seconds = time.monotonic() - begun
            progress.change(
                done={**progress.now.done, number: _done(run, chunk, attempt, result, seconds)},
                found=progress.now.found or attempt.found,
            )
            _tell(progress.now, number, result)
            step_done(f"chunk_done {number}")
        report_unread_files(spark, run.pipeline, reporter)
        staged = StagedPlan(plan, progress)
        if plan.publish == "later" and not publish_staged(spark, run, reporter, staged, step_done):
            return
    progress.change(finished_at=datetime.now(UTC), finished_by=run.run_id)


def _begin(spark: SparkSession, run: RunContext, plan: BackfillPlan, progress: ProgressFile) -> None:
    """Record what all chunks have in common, after discarding chunks that cannot be used."""
    if gone := _why_anew(spark, run, plan, progress.now):
        log.warning("begins_anew", plan=plan.digest, reason=gone)
        progress.begin_anew()
    if not progress.now.done:
        drop_staged(run.store, run.pipeline.layout, plan)
        files = keep_listings(spark, run.pipeline, run.store)
        progress.change(
            rules=run.code.rules, tables_read=newest_versions(run.pipeline), files_read=files or None
        )


def _why_anew(spark: SparkSession, run: RunContext, plan: BackfillPlan, progress: Progress) -> str:
    """Return the reason why finished chunks cannot be used; empty if they can.

    Other models or code made them, they were deleted, or the joined files have changed.
    """
    if progress.published is not None:
        # The chunks are in the tables, and the staged rows may be deleted.
        return ""
    if progress.rules not in (None, run.code.rules):
        return "chunks that are done were made with another model or other code"
    if progress.staged_at is None and files_changed(spark, run.pipeline, progress.joined.files):
        return "files of a joined folder were changed, and all chunks are joined with the same files"
    layout = run.pipeline.layout
    layout = staging_of(layout, plan, progress) if plan.publish == "later" else layout
    for sink in run.pipeline.spec.delta_sinks:
        told = (chunk.versions.get(sink.table) for chunk in progress.done.values())
        versions = {version for version in told if version is not None}
        path = layout.table(sink.table)
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
    """Return the chunks of the plan, which are the same for each driver that continues it."""
    if plan.chunk is None:
        return [plan]
    if plan.chunk.records is None:
        return [plan.of_time(part, number) for number, part in enumerate(plan.parts)]
    found = progress.now.found
    if found is None:
        begun = time.monotonic()
        start, end = ChunkAttempt(spark, run, plan, progress.now, step_done).find()
        found = Found(start=start or {}, end=end or {}, seconds=time.monotonic() - begun)
        progress.change(found=found)
    ranges = cut_offsets(plan.pipeline, found.start, found.end, plan.chunk.records)
    return [plan.of_records(start, end, number) for number, (start, end) in enumerate(ranges)]


def _done(
    run: RunContext, chunk: BackfillPlan, attempt: ChunkAttempt, result: BatchResult, seconds: float
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
    """Prevent a first start during the backfill.

    It would read from the beginning of the source and write these rows again.

    The hold refuses later starts, and the epoch fences a driver that has already passed the gate. A failed
    backfill keeps its hold, and the same command takes the hold again.
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
