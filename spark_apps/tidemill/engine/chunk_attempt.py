"""One chunk of a backfill, computed once and written into each table by repeatable writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import Found, Progress
from tidemill.backfill.staging import staging_of
from tidemill.backfill.still_holds import check_still_holds
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.discovery import known_columns
from tidemill.engine.expectations import CheckedRows
from tidemill.engine.quarantine_range import KEY, QuarantineRange
from tidemill.engine.range_entry import range_entry
from tidemill.engine.range_rows import RangeRows, TableRows
from tidemill.engine.range_tables import RangeTables
from tidemill.engine.run_context import RunContext
from tidemill.ledger.entry import LedgerEntry, Positions
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT
from tidemill.payload.late_rows import LATE_SCHEMA
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone, Written
from tidemill.sinks.range_writer import replace_rows


class ChunkAttempt:
    """One attempt at a chunk or at a whole plan; step numbers refer to `run_backfill`.

    Args:
        spark: The session.
        run: The run.
        plan: The chunk.
        progress: Progress before this attempt.
        step_done: Called after each step.
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
        staging = staging_of(run.pipeline.layout, plan, progress) if plan.publish == "later" else None
        self._tables = RangeTables(run, staging)
        self._done = frozenset(progress.done)
        # All tables and chunks use the same version of joined rows.
        self._joined = progress.joined
        self._discovery = known_columns(spark.sparkContext, run.store, run.pipeline)
        self._range = RangeRows(spark, run.pipeline, plan, self._joined, self._discovery)
        self._range.left_out_before = progress.poison

    @property
    def poison(self) -> int:
        """Return the number of records that were left out because the transform fails on them."""
        return len(self._range.poison_records or ())

    @property
    def found(self) -> Found | None:
        """Return the offsets of the records; None if the source has none."""
        if self._range.start is None or self._range.end is None:
            return None
        return Found(start=self._range.start, end=self._range.end, seconds=0)

    def find(self) -> tuple[Positions | None, Positions | None]:
        """Check that the plan still holds and the source has its records; return their offsets."""
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
        self._tables.drop_unfinished(self._done)
        return self._write()

    def check(self) -> None:
        """Check that the plan still holds."""
        check_still_holds(self._run.store, self._pipeline, self._plan)

    def _write(self) -> BatchResult:
        files = self._files()
        rows = self._range.result(files)
        tables = self._range.tables(rows)
        for each in tables:
            self._tables.prepare(each, rows)
        spec = self._pipeline.spec
        with ExitStack() as cached:
            if spec.rejects_records or spec.has_expectations or self._range.untimed is not None:
                # Computed before any write, because the rejected records must be known first.
                rows = self._range.computed(files)
                cached.callback(rows.unpersist)
                self._discovery.refuse_new()
            into = self._tables.rejections(QUARANTINE_OUTPUT, self._entry(QUARANTINE_OUTPUT))
            quarantine = QuarantineRange(self._spark, files, self._range.records, into)
            checked = self._range.checked(tables, rows, files, {"plan": self._plan.digest}, cached)
            added = quarantine.add([part for one in checked.values() for part in one.quarantined])
            self._step_done("quarantine_added")
            written = self._replace_all(rows, tables, checked)
        self._drop_accepted(quarantine)
        self._step_done("quarantine_dropped")
        self._drop_late()
        counts = {name: one.counts for name, one in checked.items()}
        untimed = self._range.untimed or 0
        return BatchResult(None, written, added, expectations=counts, no_event_time=untimed)

    def _files(self) -> Quarantine:
        path = self._tables.aside(QUARANTINE_OUTPUT)
        return Quarantine.at(self._spark.sparkContext, path, self._run.run_id)

    def _replace_all(
        self, rows: DataFrame, tables: Sequence[TableRows], checked: Mapping[str, CheckedRows]
    ) -> dict[str, Written]:
        # A transform may read its rows several times.
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
        target = self._tables.target(table.sink, table.taken.columns)
        written = replace_rows(rows, target, entry, condition, self.check)
        self._step_done(f"replaced {name}")
        return written

    def _drop_late(self) -> None:
        """Remove records from the late table that are now in the tables, even if `late` has changed since."""
        path = self._tables.aside(LATE_OUTPUT)
        files = Quarantine.at(self._spark.sparkContext, path, self._run.run_id, LATE_SCHEMA)
        into = self._tables.rejections(LATE_OUTPUT, self._entry(LATE_OUTPUT))
        self._drop_accepted(QuarantineRange(self._spark, files, self._range.records, into))
        self._step_done("late_dropped")

    def _drop_accepted(self, quarantine: QuarantineRange) -> None:
        accepted = quarantine.accepted_now()
        decided = None if accepted is None else self._range.decided(self._files())
        if accepted is not None and decided is not None:
            accepted = accepted.join(quarantine.with_rejected(decided), KEY, "left_semi")
        if accepted is not None:
            quarantine.drop(accepted)

    def _entry(self, output: str) -> LedgerEntry:
        entry = range_entry(self._run, self._plan, output, (self._range.start, self._range.end))
        return entry.with_joined(self._joined).model_copy(
            update={
                "source_schemas": self._discovery.identities,
                "poison_records": self._range.poison_records,
                "no_event_time_rows": self._range.untimed,
            }
        )
