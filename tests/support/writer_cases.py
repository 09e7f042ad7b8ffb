"""Both table writers behind their protocol, with helpers for tests of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.support.commits import TABLE
from tidemill.sinks.batch_commit import BatchCommit, StepDone, TableWriter, Written, nothing_more
from tidemill.sinks.table_columns import table_columns
from tidemill.sinks.table_log import TableLog
from tidemill.sinks.table_writer import table_writer
from tidemill.spec.delta_sink import DeltaSink

COLUMNS = "id long, name string"


class CrashedError(Exception):
    """Stands for the end of the process at this place."""


def crash_at(step: str) -> StepDone:
    """Return a step observer that fails once the step is done."""

    def crash(done: str) -> None:
        if done == step:
            raise CrashedError(step)

    return crash


@dataclass(frozen=True)
class CaseWriter:
    """A table writer, used as a driver does for a batch with one output."""

    writer: TableWriter

    def write(self, frame: DataFrame, commit: BatchCommit) -> Written:
        if self.writer.log.look(commit) is not None:
            return Written(False)
        return self.writer.stage(frame)(commit)


@dataclass(frozen=True)
class WriterCase:
    """One of the two writers and one table.

    Args:
        name: `arrow` or `spark`.
        path: The table's folder.
        spark: Session.
        declaration: Further keys of the sink.
    """

    name: str
    path: Path
    spark: SparkSession
    declaration: dict[str, Any] = field(default_factory=dict)

    def writer(self, step_done: StepDone = nothing_more, columns: str = COLUMNS) -> CaseWriter:
        """Return a writer with its own view of the table, as another driver would have."""
        sink = DeltaSink.model_validate({"table": TABLE, "writer": self.name, **self.declaration})
        log, columns_of_table = TableLog(str(self.path)), table_columns(StructType.fromDDL(columns))
        return CaseWriter(table_writer(sink, log, columns_of_table, step_done=step_done))

    def frame(self, *rows: Sequence[object], columns: str = COLUMNS) -> DataFrame:
        """Return rows on two partitions, so that two tasks write."""
        return self.spark.createDataFrame(list(rows), columns).repartition(2)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as Spark reads them, in the order of their first column."""
        rows = self.spark.read.format("delta").load(str(self.path)).collect()
        return sorted(
            (row.asDict(recursive=True) for row in rows), key=lambda row: str(next(iter(row.values())))
        )

    def ids(self) -> list[Any]:
        return sorted(row["id"] for row in self.rows())

    def data_files(self) -> set[str]:
        """Return data files of the newest version."""
        return set(self.table.get_add_actions(flatten=True).column("path").to_pylist())
