"""The arrow writer: tasks write Parquet through Arrow, the driver commits with delta-rs.

It is for plain appends. A batch is three to four times faster than with Spark's own writer, because Delta's
Spark writer rebuilds the table's state to look up the transaction version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidemill.payload.decode import Stage
from tidemill.payload.exact_paths import exact_reader
from tidemill.sinks.batch_commit import BatchCommit, Staged, StepDone, Written, nothing_more
from tidemill.sinks.part_files import write_parts
from tidemill.sinks.spark_writer import SparkWriter
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink
from tidemill.storage.parquet_part import PartFile


@dataclass(frozen=True)
class ArrowWriter:
    """Appends each batch once, in two steps.

    1. Staging: tasks write data files, which belong to no version yet.
    2. Commit: files, transaction version and ledger entry at once. After a crash before this step, step 1 is
       repeated under new file names, and a VACUUM removes the files of the first attempt.

    A batch that adds columns to the table is committed by Spark, which writes the rows of those files again,
    because delta-rs cannot add columns, data files and a transaction version in one commit.

    Args:
        log: The table's log.
        arrow_schema: Columns of the table.
        sink: The declaration.
        before: Stage that converts the frame's batches to `arrow_schema`, in the same pass as the writing;
            None if the frame already has those columns.
        step_done: Called after each step.
    """

    log: TableLog
    arrow_schema: pa.Schema
    sink: DeltaSink
    before: Stage | None = None
    step_done: StepDone = nothing_more

    @property
    def passes(self) -> int:
        """Return 1, because only staging reads the rows."""
        return 1

    @property
    def reads_when_staging(self) -> bool:
        """Return True, because files are written before the commit."""
        return True

    def check(self) -> None:
        """Raise an error if the table has other columns."""
        self.log.refresh()
        self.log.check_appendable(self.arrow_schema, self.sink.adds_columns)

    def stage(self, frame: DataFrame) -> Staged:
        """Create the table, check its columns, and write the data files."""
        self.log.create(self.arrow_schema)
        lacking = self.log.check_appendable(self.arrow_schema, self.sink.adds_columns)
        parts = write_parts(frame, self.log.path, self.arrow_schema, self.before)
        self.step_done("files_written")
        if not lacking:
            return partial(self._commit, parts)
        by_spark = SparkWriter(self.log, self.arrow_schema, self.sink, self.step_done)
        return partial(by_spark.commit, self._read_parts(frame.sparkSession, parts), lacking)

    def _commit(self, parts: Sequence[PartFile], commit: BatchCommit) -> Written:
        written = self.log.commit(parts, commit, self.arrow_schema)
        self.step_done("committed")
        return written

    def _read_parts(self, session: SparkSession, parts: Sequence[PartFile]) -> DataFrame:
        columns = from_arrow_schema(self.arrow_schema)
        if not parts:
            return session.createDataFrame([], columns)
        return (
            exact_reader(session).schema(columns).parquet(*(f"{self.log.path}/{part.name}" for part in parts))
        )
