"""The quarantine of a range that is processed again: rejected records go in, accepted ones leave."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.broken_lines import BrokenLines
from tidemill.names import LINEAGE_COLUMNS
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.range_writer import KeyedTable

# Columns that say which record of a topic a row is of, by lineage column: reading it again finds the same.
PLACE = dict(zip(LINEAGE_COLUMNS, ("topic", "partition", "offset"), strict=True))
KEY = list(PLACE.values())

# The same for other sources, of which not all tell a place.
_OTHER_KEY = ["file", "line", "value"]


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

    def add(self) -> int:
        """Add what was rejected and is not there yet; returns how many."""
        parts = self._files.take()
        if not parts:
            return 0
        parts = parts if self._lines is None else self._lines.told(parts)
        self._table.log.create(QUARANTINE_SCHEMA)
        self._rejected = self._spark.read.parquet(*(f"{self._table.log.path}/{part.name}" for part in parts))
        key = _OTHER_KEY if self._records is None else KEY
        return self._table.insert_new(self._rejected, key)

    def accepted_now(self) -> DataFrame | None:
        """Records of the table that were not rejected this time, by their key; None if there are none."""
        if self._records is None or self._table.log.refresh() is None:
            return None
        rows = self._spark.read.format("delta").load(self._table.log.path).where(self._records).select(KEY)
        if self._rejected is not None:
            rows = rows.join(self._rejected.select(KEY), KEY, "left_anti")
        return None if rows.isEmpty() else rows

    def drop(self, records: DataFrame) -> None:
        """Remove records."""
        self._table.delete(records, KEY)
