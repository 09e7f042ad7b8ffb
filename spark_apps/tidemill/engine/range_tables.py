"""The tables that a backfill changes: those that readers see, or staging tables."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.backfill.staging import drop_unfinished
from tidemill.engine.outputs import table_log
from tidemill.engine.quarantine_range import RejectionTables
from tidemill.engine.range_rows import TableRows
from tidemill.engine.run_context import RunContext
from tidemill.engine.turn import turn
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import ASIDE_OUTPUTS, Layout
from tidemill.sinks.range_writer import KeyedTable, RangeTarget, prepare_table
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink


@dataclass(frozen=True)
class RangeTables:
    """The tables of one backfill.

    Args:
        run: The run.
        staging: Layout of the staging area; None if rows go directly into the tables.
    """

    run: RunContext
    staging: Layout | None = None

    @property
    def _layout(self) -> Layout:
        return self.staging or self.run.pipeline.layout

    def prepare(self, table: TableRows, result: DataFrame) -> None:
        """Create a missing table, and refuse a table with other columns, before hours of work.

        Raises:
            DataError: TIDE-SINK-001.
        """
        rows = table.taken.of(result)
        if self.staging is not None:
            readers = self.published(table.sink, table.taken.columns)
            readers.log.refresh()
            readers.log.check_columns(readers.columns, table.sink.adds_columns)
        prepare_table(rows, self.target(table.sink, table.taken.columns))

    def target(self, sink: DeltaSink, columns: pa.Schema) -> RangeTarget:
        """Return the table that receives the rows of a chunk."""
        return RangeTarget(table_log(self.run.pipeline, sink, self._layout), columns, sink, self.turn)

    def published(
        self, sink: DeltaSink, columns: pa.Schema, transaction: tuple[str, int] | None = None
    ) -> RangeTarget:
        """Return the table that readers see."""
        return RangeTarget(table_log(self.run.pipeline, sink), columns, sink, self.turn, transaction)

    def aside(self, output: str) -> str:
        """Return the path of the table for records that are set aside, by one of `ASIDE_OUTPUTS`."""
        return self._layout.aside(output, self.run.pipeline.name)

    def rejections(self, output: str, entry: LedgerEntry) -> RejectionTables:
        """Return the table for records that are set aside, and the table that readers see.

        Args:
            output: One of `ASIDE_OUTPUTS`.
            entry: Ledger entry for each commit.
        """
        name = self.run.pipeline.name
        held = self._keyed(self.run.pipeline.layout.aside(output, name), entry)
        if self.staging is None:
            return RejectionTables(held, held)
        into = self._keyed(self.aside(output), entry)
        return RejectionTables(held, into, self._keyed(self.staging.leaving(output, name), entry))

    def drop_unfinished(self, done: Collection[int]) -> None:
        """Remove staged records that an earlier attempt at a chunk has set aside.

        Args:
            done: Numbers of the finished chunks.
        """
        if self.staging is None:
            return
        for output in ASIDE_OUTPUTS:
            drop_unfinished(self.aside(output), done)
            drop_unfinished(self.staging.leaving(output, self.run.pipeline.name), done)

    def turn(self) -> AbstractContextManager[None]:
        """Make the pipeline's stream wait during a `with` block."""
        layout, name = self.run.pipeline.layout, self.run.pipeline.name
        return turn(self.run.store, layout.turn(name), self.run.run_id)

    def _keyed(self, path: str, entry: LedgerEntry) -> KeyedTable:
        return KeyedTable(TableLog(path), entry, self.turn)
