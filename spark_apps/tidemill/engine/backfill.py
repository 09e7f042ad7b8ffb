"""Carrying out a backfill plan, chunk by chunk, from where a driver before has come to."""

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
    7. Where rows are published later, all this went into a staging area so far, and ends there until a person
       asks for it; then `publish_staged` takes it into the tables. There, 4. begins by taking back what a
       chunk that was killed has set aside: the tables that readers see do not tell of it.

    Raises:
        UsageError: TIDE-BACK-016, if the plan does not hold any more.
        DrainedError: If a stop was asked for.
    """
    progress = ProgressFile(run.store, run.pipeline.layout, plan, run.run_id)
    if progress.now.finished_by == run.run_id:
        # Killed after its end: nothing is left to do.
        return
    if plan.publish == "later":
        # Before anything that is staged is given up: a change may be taken back.
        check_still_holds(run.store, run.pipeline, plan)
    if gone := _why_anew(spark, run, plan, progress.now):
        log.warning("begins_anew", plan=plan.digest, reason=gone)
        progress.begin_anew()
    if not progress.now.done:
        drop_staged(run.store, run.pipeline.layout, plan)
        files = keep_listings(spark, run.pipeline, run.store)
        progress.change(
            rules=run.code.rules, tables_read=newest_versions(run.pipeline), files_read=files or None
        )
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
            # What is staged is in no table yet.
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


def _why_anew(spark: SparkSession, run: RunContext, plan: BackfillPlan, progress: Progress) -> str:
    """Why the chunks that are done do not count.

    Other models or code made them, they are gone, or the others cannot be joined with the same files.
    """
    if progress.published is not None:
        # They are in the tables, and what is staged may be deleted.
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
    """The plan in its chunks, the same ones for each driver that goes on with it."""
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
