"""Publishing of staged rows in the tables that readers see, one commit per table, while the stream runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from pyspark.sql import DataFrame, SparkSession

from tidemill.backfill.plan import BackfillPlan, TablePlan
from tidemill.backfill.positions import offsets_condition
from tidemill.backfill.progress import ProgressFile
from tidemill.backfill.replaced_meanwhile import check_not_replaced
from tidemill.backfill.staging import (
    attempt_of,
    drop_staged,
    is_asked_for,
    publication,
    published_entry,
    staging_of,
    transaction_of,
)
from tidemill.backfill.still_holds import check_still_holds
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.quarantine_range import REJECTION, insert_rejections
from tidemill.engine.range_entry import range_entry
from tidemill.engine.range_tables import RangeTables
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.errors import DataError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import History, open_table, read_ledger
from tidemill.names import ASIDE_OUTPUTS, QUARANTINE_OUTPUT
from tidemill.sinks.batch_commit import StepDone, Written
from tidemill.sinks.range_writer import RangeTarget, prepare_table, replace_rows
from tidemill.sinks.table_columns import table_columns
from tidemill.spec.delta_sink import DeltaSink

log = structlog.get_logger()


@dataclass(frozen=True)
class StagedPlan:
    """A plan and its progress.

    Args:
        plan: The plan.
        progress: Progress of this attempt.
    """

    plan: BackfillPlan
    progress: ProgressFile


def publish_staged(
    spark: SparkSession, run: RunContext, reporter: Reporter, staged: StagedPlan, step_done: StepDone
) -> bool:
    """Publish the rows of an attempt if an operator has asked for it; return True if all are published.

    Even if the run is killed at any point and repeated, each table has one commit with the rows. The order is
    that of a chunk: between any two steps each record is in a table or in the quarantine.

    1. Record that all rows are staged. Without a request to publish, the run ends here.
    2. Check that the plan still holds; repeat the check before each commit. Record the table versions before
       the first of these commits.
    3. Add rejected records to the quarantine.
    4. Replace the rows of the range in each table, in one commit with a separate transaction.
    5. Remove records that are now in the tables from the quarantine and from the late table.
    6. Record what was published, then delete the staged rows.

    Raises:
        UsageError: TIDE-BACK-016, if the plan no longer holds; TIDE-BACK-065, if another plan has since
            replaced rows of its range.
        DataError: TIDE-BACK-060, if a table's rows were published and have since been removed; TIDE-BACK-063,
            if staged rows are missing.
    """
    plan, progress = staged.plan, staged.progress
    # 1.
    if progress.now.staged_at is None:
        progress.change(staged_at=datetime.now(UTC))
        step_done("staged")
    if not is_asked_for(run.store, run.pipeline.layout, plan, progress.now):
        log.info("staged", plan=plan.digest, rows=progress.now.rows)
        return False
    if progress.now.published is None:
        result = _Publishing(spark, run, staged, step_done).carry_out()
        reporter.batch(result)
        progress.change(published={name: written.version for name, written in result.written.items()})
        step_done("published")
    drop_staged(run.store, run.pipeline.layout, plan)
    step_done("staging_dropped")
    return True


class _Publishing:
    """Steps 2 to 5 of `publish_staged`."""

    def __init__(self, spark: SparkSession, run: RunContext, staged: StagedPlan, step_done: StepDone) -> None:
        self._spark = spark
        self._run = run
        self._plan = staged.plan
        self._progress = staged.progress
        self._step_done = step_done
        self._staging = staging_of(run.pipeline.layout, self._plan, self._progress.now)
        self._tables = RangeTables(run, self._staging)

    def carry_out(self) -> BatchResult:
        """Publish the rows; return their counts."""
        sinks = self._run.pipeline.spec.delta_sinks
        # 2.
        self._check()
        if self._progress.now.since is None:
            check_not_replaced(self._run.store, self._run.pipeline.layout, self._plan, self._progress.now)
            tables = {sink.table: open_table(self._run.pipeline.layout.table(sink.table)) for sink in sinks}
            since = {name: None if table is None else table.version() for name, table in tables.items()}
            self._progress.change(since=since)
        self._step_done("publishing")
        # 3.
        added = self._add_rejections()
        self._step_done("published quarantine_added")
        # 4.
        written = {}
        for sink in sinks:
            written[sink.table] = self._publish(sink)
            self._step_done(f"published {sink.table}")
        # 5.
        self._drop_accepted()
        self._step_done("published quarantine_dropped")
        return BatchResult(None, written, added)

    def _check(self) -> None:
        check_still_holds(self._run.store, self._run.pipeline, self._plan)

    def _publish(self, sink: DeltaSink) -> Written:
        if not self._progress.now.done:
            # The range has no records.
            return Written(False)
        rows = self._rows(self._staging.table(sink.table))
        if rows is None:
            raise _gone(self._plan, sink.table)
        transaction = transaction_of(self._plan, self._progress.now, sink.table)
        target = self._tables.published(sink, table_columns(rows.schema), transaction)
        before = self._published_before(target, sink.table)
        if before is not None:
            return before
        prepare_table(rows, target)
        return replace_rows(rows, target, self._entry(sink.table), self._condition(sink.table), self._check)

    def _published_before(self, target: RangeTarget, name: str) -> Written | None:
        """Return the commit of an earlier try; None if there is none.

        Raises:
            DataError: TIDE-BACK-060.
        """
        table, transaction = target.log.refresh(), target.transaction
        if table is None or transaction is None:
            return None
        app_id, number = transaction
        known = table.transaction_version(app_id)
        since = (self._progress.now.since or {}).get(name)
        found, commit = publication(
            History(target.log.path, open_table(target.log.path)),
            attempt_of(self._progress.now),
            -1 if since is None else since,
            is_known=known is not None and known >= number,
        )
        if found == "taken back":
            raise _taken_back(self._plan, target.log.path)
        return None if commit is None else Written(True, commit.rows, commit.version)

    def _entry(self, table: str) -> LedgerEntry:
        now = self._progress.now
        read = (None, None) if now.found is None else (now.found.start, now.found.end)
        planned = range_entry(self._run, self._plan, table, read)
        planned = planned.with_joined(now.joined)
        entries = [commit.entry for commit in read_ledger(self._staging.table(table))]
        return published_entry(planned, [entry for entry in entries if entry], attempt_of(now))

    def _condition(self, table: str) -> str | None:
        """Return the condition for the rows to replace, over the whole range."""
        planned: TablePlan = next(found for found in self._plan.tables if found.table == table)
        found = self._progress.now.found
        if self._plan.by == "record" and found is not None:
            return offsets_condition(found.start, found.end, planned.record or {})
        return planned.condition

    def _add_rejections(self) -> int:
        rejected = self._rows(self._tables.aside(QUARANTINE_OUTPUT))
        if rejected is None:
            return 0
        held = self._tables.rejections(QUARANTINE_OUTPUT, self._entry(QUARANTINE_OUTPUT)).held
        return insert_rejections(rejected, held, self._run.pipeline.spec.source.is_kafka)

    def _drop_accepted(self) -> None:
        for output in ASIDE_OUTPUTS:
            accepted = self._rows(self._staging.leaving(output, self._run.pipeline.name))
            if accepted is not None:
                held = self._tables.rejections(output, self._entry(output)).held
                held.delete(accepted, REJECTION)

    def _rows(self, path: str) -> DataFrame | None:
        if open_table(path) is None:
            return None
        return self._spark.read.format("delta").load(path)


def _taken_back(plan: BackfillPlan, path: str) -> DataError:
    return DataError(
        "TIDE-BACK-060",
        "The rows of this backfill were published and taken out of the table again. Nothing was written.",
        facts={"pipeline": plan.pipeline, "plan": plan.digest, "table": path},
        fix=_compute_anew(plan),
        runbook="backfill",
    )


def _gone(plan: BackfillPlan, table: str) -> DataError:
    return DataError(
        "TIDE-BACK-063",
        "Staged rows were deleted while they were to be published. Nothing was written to this table.",
        facts={"pipeline": plan.pipeline, "plan": plan.digest, "table": table},
        fix=_compute_anew(plan),
        runbook="backfill",
    )


def _compute_anew(plan: BackfillPlan) -> str:
    return f"compute them anew: tidemill backfill apply {plan.pipeline} --plan {plan.digest} --anew"
