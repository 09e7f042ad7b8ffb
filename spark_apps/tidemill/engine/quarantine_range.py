"""The quarantine of a range that is processed again: rejected records go in, accepted ones leave."""

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

# Columns that say which record of a topic a row is of, by lineage column: reading it again finds the same.
PLACE = dict(zip(LINEAGE_COLUMNS, ("topic", "partition", "offset"), strict=True))
KEY = list(PLACE.values())

# A row of the quarantine: several tables may each refuse what was made of one record.
REJECTION = [*KEY, "reason", "value"]

# The same for other sources, of which not all tell a place.
_OTHER_REJECTION = ["file", "line", "reason", "value"]


@dataclass(frozen=True)
class RejectionTables:
    """Where the rejected records of a range are, and where changes to them go.

    Args:
        held: The table as its readers see it.
        into: Takes what is rejected now; `held` itself, unless rows are staged.
        leaving: Takes note of what leaves `held` later; None if it leaves at once.
    """

    held: KeyedTable
    into: KeyedTable
    leaving: KeyedTable | None = None


class QuarantineRange:
    """The quarantine table, as far as it is of certain records.

    Args:
        spark: The session.
        files: Takes what tasks reject.
        records: SQL condition of the records; None for a source that is no topic, whose records stay.
        tables: The table that is changed, and where what changes goes.
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
        """Add what was rejected and is not there yet; returns how many.

        Args:
            more: Files of the table with records that no task has handed in.
        """
        parts = [*self._files.take(), *more]
        if not parts:
            return 0
        paths = (f"{self._files.path}/{part.name}" for part in parts)
        self._rejected = exact_reader(self._spark).parquet(*paths)
        return insert_rejections(self._rejected, self._tables.into, self._records is not None)

    def accepted_now(self) -> DataFrame | None:
        """Rows of the table that were not rejected this time, by `REJECTION`; None if there are none."""
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
        """Records, by `KEY`, and those that were rejected this time: of all these it was decided anew."""
        return places if self._rejected is None else places.unionByName(self._rejected.select(KEY))

    def drop(self, rejections: DataFrame) -> None:
        """Remove rows, by `REJECTION`, or take note of those that leave later."""
        if self._tables.leaving is None:
            self._tables.held.delete(rejections, REJECTION)
        else:
            self._tables.leaving.log.create(table_columns(rejections.schema))
            self._tables.leaving.insert_new(rejections, REJECTION)


def insert_rejections(rejections: DataFrame, table: KeyedTable, has_places: bool) -> int:
    """Add rejected records to a quarantine that does not hold them yet; returns how many.

    Args:
        rejections: In its columns.
        table: The quarantine.
        has_places: Whether they are records of a topic, which tells one from another.
    """
    table.log.create(QUARANTINE_SCHEMA)
    return table.insert_new(rejections, REJECTION if has_places else _OTHER_REJECTION)
