"""The rows of a planned range, computed once: to be written into the tables, or to be compared with them."""

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
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink
from tidemill.storage.store import Store


@dataclass(frozen=True)
class TableRows:
    """A table, and what it takes of the result."""

    sink: DeltaSink
    taken: SinkRows


class RangeRows:
    """The records of a plan, whose offsets become narrower when they are found, and what is made of them.

    Args:
        spark: The session.
        pipeline: Its pipeline.
        plan: The plan.
        joined: Contents of the tables and folders that rows are joined with.
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
        # Records at which the transform failed in chunks before.
        self.left_out_before = 0
        self.start, self.end = plan.start_offsets, plan.end_offsets
        self._left_out = LeftOut()
        # Rows without an event time are in no window, so a plan of a range of windows is not about them.
        counts = plan.condition is None
        self._untimed = untimed_rows(spark.sparkContext, pipeline) if counts else None
        self._files_read: frozenset[str] = frozenset()
        # The files to read; None for all.
        self._files: frozenset[str] | None = None
        self._has_windows = False

    def find_records(self) -> None:
        """See that the source still has the records.

        Raises:
            UsageError: TIDE-BACK-008 or -016.
        """
        # Of files, which the stream goes on to read, `decoded` sees to that.
        self.start = records_there(self._pipeline, self._plan)
        if self._plan.live is not None and self._pipeline.spec.source.files is not None:
            store, live = Store(self._pipeline.layout.root), self._plan.live.generation
            self._files_read = files_read_live(store, self._pipeline, live)
            self._files = files_finished_live(store, self._pipeline, live)

    def find_offsets(self, rejected: Quarantine) -> None:
        """Narrow the range of offsets to the records that were chosen by time."""
        column, times = self._plan.find_offsets_by, self._plan.bounds.times
        if column is None or times is None or self.start is None or self.end is None:
            return
        decoded = self.decoded(rejected)
        self.start, self.end = offsets_of_times(decoded, column, times, self.start, self.end)

    @property
    def records(self) -> str | None:
        """SQL condition of the records that are read, in the quarantine; None if they are in no topic."""
        if not self._pipeline.spec.source.is_kafka:
            return None
        return offsets_condition(self.start or {}, self.end or {}, PLACE)

    @property
    def poison_records(self) -> tuple[str, ...] | None:
        """Those that are left out because the transform fails at them, as the ledger names them."""
        return tuple(sorted("-".join(map(str, place)) for place in self._left_out.reasons)) or None

    @property
    def untimed(self) -> int | None:
        """Rows without an event time that windows dropped from the computed result; None if none can be."""
        return self._untimed.rows if self._untimed is not None and self._has_windows else None

    def decoded(self, rejected: Quarantine) -> DataFrame:
        """The records."""
        past = Past(self.start, self.end, self._plan.source_version, self._plan.archive, self._files)
        records = read_batch(self._spark, self._pipeline, past)
        if self._files_read:
            # Spark has listed the files by now, and reads exactly these: one that goes later is an error.
            check_files_there(self._pipeline, self._files_read, files_of(self._pipeline, records))
        collectors = Collectors(
            rejected, None, self._discovery.columns, self._left_out, untimed=self._untimed
        )
        return decoded_rows(self._pipeline, records, collectors)

    def result(self, rejected: Quarantine) -> DataFrame:
        """What the transform makes of those that take part."""
        frame = flow_of(self._pipeline, {SOURCE_NAME: self._chosen(rejected)}, self._joined).frame
        self._has_windows = has_windows(frame)
        return frame

    def computed(self, rejected: Quarantine) -> DataFrame:
        """The same, computed and kept, without the records at which the transform fails.

        Whatever a stream has left out, these are found anew: what fails no more becomes rows.

        Raises:
            DataError: TIDE-DATA-010, if they are too many.
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
            # Not in the `except`: what fails here would be taken for the failure, which were its context.
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
        """Which of the records between the offsets the plan is about, by `KEY`; None if all.

        Of windows, only events whose windows are all in the range. This reads the records once more.
        """
        if self._plan.condition is None:
            return None
        counted = self.decoded(rejected).where(self._plan.counted or self._plan.condition)
        return counted.select(*(F.col(name).alias(column) for name, column in PLACE.items()))

    def tables(self, result: DataFrame) -> list[TableRows]:
        """The tables, in the order of the file."""
        sinks = enumerate(self._pipeline.spec.sinks)
        return [
            TableRows(sink.delta, sink_rows(self._pipeline, place, result))
            for place, sink in sinks
            if sink.delta is not None
        ]

    def condition_of(self, table: str) -> str | None:
        """SQL condition of a table's rows that the range is made into; None for all."""
        planned = next(found for found in self._plan.tables if found.table == table)
        if self._plan.by == "record":
            return offsets_condition(self.start or {}, self.end or {}, planned.record or {})
        return planned.condition

    def rows_of(self, table: TableRows, result: DataFrame) -> DataFrame:
        """The table's rows: of windows that overlap the range, the first and the last ones are not whole."""
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
        """The rows of each table that expects something of them, by table; commits nothing.

        Args:
            tables: All tables.
            result: From the cache.
            quarantine: Where rows go.
            read: What was read, as facts of an error.
            cached: Lets go what is kept until the rows are written.

        Raises:
            DataError: TIDE-EXP-001.
        """
        found = {}
        for table in tables:
            if table.taken.expectations is None:
                continue
            rows = self.rows_of(table, result)
            if table.taken.transform is not None:
                # It may give other rows each time.
                rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
                cached.callback(rows.unpersist)
            found[table.sink.table] = table.taken.expectations.check(rows, quarantine, read)
        return found
