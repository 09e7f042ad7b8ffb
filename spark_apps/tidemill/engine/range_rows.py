"""The rows of a planned range, computed once, to be written into the tables or compared with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.backfill.files_there import check_files_there, files_finished_live, files_read_live
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.positions import offsets_condition
from tidemill.backfill.still_holds import records_there
from tidemill.engine.discovery import Discovery
from tidemill.engine.expectations import CheckedRows
from tidemill.engine.flow import Collectors, decoded_rows, flow_of
from tidemill.engine.poison import PoisonSearch
from tidemill.engine.quarantine_range import PLACE
from tidemill.engine.record_failure import record_failure
from tidemill.engine.record_offsets import offsets_of_times
from tidemill.engine.sink_rows import SinkRows, sink_rows
from tidemill.engine.untimed import has_windows, untimed_rows
from tidemill.ledger.entry import Joined
from tidemill.names import SOURCE_NAME
from tidemill.payload.left_out import LeftOut, reason_of
from tidemill.payload.quarantine import Quarantine
from tidemill.sources.past_files import files_of
from tidemill.sources.read import Past, read_batch
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


@dataclass(frozen=True)
class TableRows:
    """A table and its selection of the result."""

    sink: DeltaSink
    taken: SinkRows


class RangeRows:
    """The records of a plan and the rows computed from them; the offsets narrow when the records are found.

    Args:
        spark: The session.
        pipeline: The pipeline.
        plan: The plan.
        joined: Contents of joined tables and folders.
        discovery: Columns that are not declared.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        plan: BackfillPlan,
        joined: Joined,
        discovery: Discovery,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._plan = plan
        self._joined = joined
        self._discovery = discovery
        # Number of records on which the transform failed in earlier chunks.
        self.left_out_before = 0
        self.start, self.end = plan.start_offsets, plan.end_offsets
        self._left_out = LeftOut()
        # Rows without an event time are in no window, so a plan for a range of windows does not concern them.
        counts = plan.condition is None
        self._untimed = untimed_rows(spark.sparkContext, pipeline) if counts else None
        self._files_read: frozenset[str] = frozenset()
        # Files to read; None for all.
        self._files: frozenset[str] | None = None
        self._has_windows = False

    def find_records(self) -> None:
        """Check that the source still has the records.

        Raises:
            UsageError: TIDE-BACK-008 or -016.
        """
        # If the source is files, which the stream continues to read, `decoded` checks them.
        self.start = records_there(self._pipeline, self._plan)
        if self._plan.live is not None and self._pipeline.spec.source.files is not None:
            store, live = Store(self._pipeline.layout.root), self._plan.live.generation
            self._files_read = files_read_live(store, self._pipeline, live)
            self._files = files_finished_live(store, self._pipeline, live)

    def find_offsets(self, rejected: Quarantine) -> None:
        """Narrow the range of offsets to the records that were selected by time."""
        column, times = self._plan.find_offsets_by, self._plan.bounds.times
        if column is None or times is None or self.start is None or self.end is None:
            return
        decoded = self.decoded(rejected)
        self.start, self.end = offsets_of_times(decoded, column, times, self.start, self.end)

    @property
    def records(self) -> str | None:
        """Return the SQL condition for the records in the quarantine; None if the source is not Kafka."""
        if not self._pipeline.spec.source.is_kafka:
            return None
        return offsets_condition(self.start or {}, self.end or {}, PLACE)

    @property
    def poison_records(self) -> tuple[str, ...] | None:
        """Return the records that are left out because the transform fails on them, as in the ledger."""
        return tuple(sorted("-".join(map(str, place)) for place in self._left_out.reasons)) or None

    @property
    def untimed(self) -> int | None:
        """Return the number of rows without an event time that windows dropped; None without such windows."""
        return self._untimed.rows if self._untimed is not None and self._has_windows else None

    def decoded(self, rejected: Quarantine) -> DataFrame:
        """Return the decoded records."""
        past = Past(self.start, self.end, self._plan.source_version, self._plan.archive, self._files)
        records = read_batch(self._spark, self._pipeline, past)
        if self._files_read:
            # Spark has now listed the files and reads exactly these; a file that disappears later is an
            # error.
            check_files_there(self._pipeline, self._files_read, files_of(self._pipeline, records))
        collectors = Collectors(
            rejected, None, self._discovery.columns, self._left_out, untimed=self._untimed
        )
        return decoded_rows(self._pipeline, records, collectors)

    def result(self, rejected: Quarantine) -> DataFrame:
        """Return the result of the transform for the selected records."""
        frame = flow_of(self._pipeline, {SOURCE_NAME: self._chosen(rejected)}, self._joined).frame
        self._has_windows = has_windows(frame)
        return frame

    def computed(self, rejected: Quarantine) -> DataFrame:
        """Return the result, computed and cached, without the records on which the transform fails.

        These records are found again, even if a stream has left some out before; those that no longer fail
        become rows.

        Raises:
            DataError: TIDE-DATA-010, if there are too many.
        """
        while True:
            rejected.forget()
            if self._untimed is not None:
                self._untimed.forget()
            result = self.result(rejected).persist(StorageLevel.MEMORY_AND_DISK)
            try:
                result.count()
                return result
            except Exception as error:  # noqa: BLE001  # raised again, unless records are to blame
                result.unpersist()
                failure = error
            # Outside the `except`, because `failure` would become the context of an error here and be taken
            # for it.
            self._leave_out(rejected, failure)

    def _chosen(self, rejected: Quarantine) -> DataFrame:
        decoded, condition = self.decoded(rejected), self._plan.condition
        return decoded if condition is None else decoded.where(condition)

    def _leave_out(self, rejected: Quarantine, failure: Exception) -> None:
        pipeline = self._pipeline
        if not pipeline.spec.leaves_out_poison or record_failure(failure) is None:
            raise failure
        search = PoisonSearch(pipeline, self._joined)
        before = self._left_out.reasons
        known = self.left_out_before + len(before)
        found = search.find(self._chosen(rejected), self.start or {}, self.end or {}, known)
        if not found:
            raise failure
        reasons = {poison.place: reason_of(poison.failure.error, poison.failure.message) for poison in found}
        self._left_out = LeftOut({**before, **reasons})

    def decided(self, rejected: Quarantine) -> DataFrame | None:
        """Return the records between the offsets that the plan concerns, by `KEY`; None for all.

        For windows, these are only events whose windows are all in the range. This reads the records again.
        """
        if self._plan.condition is None:
            return None
        counted = self.decoded(rejected).where(self._plan.counted or self._plan.condition)
        return counted.select(*(F.col(name).alias(column) for name, column in PLACE.items()))

    def tables(self, result: DataFrame) -> list[TableRows]:
        """Return the tables, in the order of the pipeline file."""
        sinks = enumerate(self._pipeline.spec.sinks)
        return [
            TableRows(sink.delta, sink_rows(self._pipeline, place, result))
            for place, sink in sinks
            if sink.delta is not None
        ]

    def condition_of(self, table: str) -> str | None:
        """Return the SQL condition for a table's rows that the range replaces; None for all."""
        planned = next(found for found in self._plan.tables if found.table == table)
        if self._plan.by == "record":
            return offsets_condition(self.start or {}, self.end or {}, planned.record or {})
        return planned.condition

    def rows_of(self, table: TableRows, result: DataFrame) -> DataFrame:
        """Return the table's rows, without the incomplete first and last windows that overlap the range."""
        rows, condition = table.taken.of(result), self.condition_of(table.sink.table)
        return rows.where(condition) if self._plan.by == "window" and condition is not None else rows

    def checked(
        self,
        tables: Sequence[TableRows],
        result: DataFrame,
        quarantine: Quarantine,
        read: Mapping[str, object],
        cached: ExitStack,
    ) -> dict[str, CheckedRows]:
        """Return the checked rows of each table with expectations, by table; commit nothing.

        Args:
            tables: All tables.
            result: Result, from the cache.
            quarantine: Receives the rows that are set aside.
            read: Facts about the input, for an error.
            cached: Releases cached rows after they are written.

        Raises:
            DataError: TIDE-EXP-001.
        """
        found = {}
        for table in tables:
            if table.taken.expectations is None:
                continue
            rows = self.rows_of(table, result)
            if table.taken.transform is not None:
                # The transform may return different rows each time.
                rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
                cached.callback(rows.unpersist)
            found[table.sink.table] = table.taken.expectations.check(rows, quarantine, read)
        return found
