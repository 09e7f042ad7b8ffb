"""The quarantine of a range that is processed again: rejected records go in, accepted ones leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.engine.broken_lines import BrokenLines
from tidemill.names import LINEAGE_COLUMNS
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.range_writer import KeyedTable
from tidemill.storage.parquet_part import PartFile

# Columns that say which record of a topic a row is of, by lineage column: reading it again finds the same.
PLACE = dict(zip(LINEAGE_COLUMNS, ("topic", "partition", "offset"), strict=True))
KEY = list(PLACE.values())

# A row of the quarantine: several tables may each refuse what was made of one record.
REJECTION = [*KEY, "reason", "value"]

# The same for other sources, of which not all tell a place.
_OTHER_REJECTION = ["file", "line", "reason", "value"]


class QuarantineRange:
    """The quarantine table, as far as it is of certain records.

    Args:
        spark: The session.
        files: Takes what tasks reject.
        lines: Finds the lines of broken records of text files; None for other sources.
        records: SQL condition of the records; None for a source that is no topic, whose records stay.
        table: The table.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Quarantine,
        lines: BrokenLines | None,
        records: str | None,
        table: KeyedTable,
    ) -> None:
        self._spark = spark
        self._files = files
        self._lines = lines
        self._records = records
        self._table = table
        self._rejected: DataFrame | None = None

    def add(self, more: Sequence[PartFile] = ()) -> int:
        """Add what was rejected and is not there yet; returns how many.

        Args:
            more: Files of the table with records that no task has handed in.
        """
        parts = self._files.take()
        parts = [*(parts if self._lines is None else self._lines.told(parts)), *more]
        if not parts:
            return 0
        self._table.log.create(QUARANTINE_SCHEMA)
        self._rejected = self._spark.read.parquet(*(f"{self._table.log.path}/{part.name}" for part in parts))
        key = _OTHER_REJECTION if self._records is None else REJECTION
        return self._table.insert_new(self._rejected, key)

    def accepted_now(self) -> DataFrame | None:
        """Rows of the table that were not rejected this time, by `REJECTION`; None if there are none."""
        if self._records is None or self._table.log.refresh() is None:
            return None
        table = self._spark.read.format("delta").load(self._table.log.path)
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
        """Remove rows, by `REJECTION`."""
        self._table.delete(rejections, REJECTION)
