"""The quarantine of a range that is processed again: rejected records are added, accepted ones removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.names import LINEAGE_COLUMNS
from tidemill.payload.exact_paths import exact_reader
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.range_writer import KeyedTable
from tidemill.sinks.table_columns import table_columns
from tidemill.storage.parquet_part import PartFile

# Columns with the Kafka position of a record, by lineage column; they stay the same when it is read again.
PLACE = dict(zip(LINEAGE_COLUMNS, ("topic", "partition", "offset"), strict=True))
KEY = list(PLACE.values())

# Key of a row in the quarantine. Several tables may each refuse the row of one record.
REJECTION = [*KEY, "reason", "value"]

# Key for other sources, of which not all have positions.
_OTHER_REJECTION = ["file", "line", "reason", "value"]


@dataclass(frozen=True)
class RejectionTables:
    """Tables with the rejected records of a range, and tables that receive changes to them.

    Args:
        held: The table that readers see.
        into: Receives new rejections; `held` itself, unless rows are staged.
        leaving: Collects rows that will be removed from `held` later; None if they are removed at once.
    """

    held: KeyedTable
    into: KeyedTable
    leaving: KeyedTable | None = None


class QuarantineRange:
    """The rows of certain records in the quarantine table.

    Args:
        spark: The session.
        files: Collects the rejections of tasks.
        records: SQL condition for the records; None for a source other than Kafka, whose rows stay in the
            table.
        tables: The quarantine, and the tables that receive changes.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Quarantine,
        records: str | None,
        tables: RejectionTables,
    ) -> None:
        self._spark = spark
        self._files = files
        self._records = records
        self._tables = tables
        self._rejected: DataFrame | None = None

    def add(self, more: Sequence[PartFile] = ()) -> int:
        """Add the rejections that the table does not hold yet; return their number.

        Args:
            more: Files of the table with records that no task has reported.
        """
        parts = [*self._files.take(), *more]
        if not parts:
            return 0
        paths = (f"{self._files.path}/{part.name}" for part in parts)
        self._rejected = exact_reader(self._spark).parquet(*paths)
        return insert_rejections(self._rejected, self._tables.into, self._records is not None)

    def accepted_now(self) -> DataFrame | None:
        """Return rows of the table that were not rejected now, by `REJECTION`; None if there are none."""
        held = self._tables.held
        if self._records is None or held.log.refresh() is None:
            return None
        table = self._spark.read.format("delta").load(held.log.path)
        rows = table.where(self._records).select(REJECTION).distinct()
        if self._rejected is not None:
            then, now = rows.alias("then"), self._rejected.select(REJECTION).alias("now")
            same = (F.col(f"now.{name}").eqNullSafe(F.col(f"then.{name}")) for name in REJECTION)
            rows = then.join(now, reduce(and_, same), "left_anti")
        return None if rows.isEmpty() else rows

    def with_rejected(self, places: DataFrame) -> DataFrame:
        """Return the given records, by `KEY`, and those rejected this time; all have a new decision."""
        return places if self._rejected is None else places.unionByName(self._rejected.select(KEY))

    def drop(self, rejections: DataFrame) -> None:
        """Remove rows, by `REJECTION`, or record that they must be removed later."""
        if self._tables.leaving is None:
            self._tables.held.delete(rejections, REJECTION)
        else:
            self._tables.leaving.log.create(table_columns(rejections.schema))
            self._tables.leaving.insert_new(rejections, REJECTION)


def insert_rejections(rejections: DataFrame, table: KeyedTable, has_places: bool) -> int:
    """Add rejected records to a quarantine that does not hold them yet; return their number.

    Args:
        rejections: Rows with the columns of the quarantine.
        table: The quarantine.
        has_places: True for Kafka records, which their position identifies.
    """
    table.log.create(QUARANTINE_SCHEMA)
    return table.insert_new(rejections, REJECTION if has_places else _OTHER_REJECTION)
