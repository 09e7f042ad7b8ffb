"""Writes of a backfill: each replaces or merges a range, so that a repeated one changes no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidemill.errors import UnavailableError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import rows_written
from tidemill.sinks.batch_commit import Written
from tidemill.sinks.spark_writer import create_table, merge_by_key
from tidemill.sinks.table_log import TableLog
from tidemill.spec.sinks import DeltaSink

# Commits lost to the live stream before a backfill gives up. The stream commits every few seconds and a
# replaced range takes about as long to commit, so losing several in a row is normal.
COMMIT_ATTEMPTS = 20


@dataclass(frozen=True)
class RangeTarget:
    """The table that a backfill writes to.

    Args:
        log: The table's log.
        columns: Columns of the rows.
        sink: The declaration: key, layout, options.
    """

    log: TableLog
    columns: pa.Schema
    sink: DeltaSink


def replace_rows(rows: DataFrame, target: RangeTarget, entry: LedgerEntry, condition: str | None) -> Written:
    """Put `rows` in the place of those that match `condition`; of the whole table without one."""
    _prepare(rows, target)
    writer = (
        rows.write.format("delta")
        .mode("overwrite")
        .options(**target.sink.options)
        .option("userMetadata", entry.to_text())
    )
    if condition is not None:
        writer = writer.option("replaceWhere", condition)
    _until_committed(lambda: writer.save(target.log.path), target.log)
    return _newest(target.log)


def merge_rows(rows: DataFrame, target: RangeTarget, entry: LedgerEntry) -> Written:
    """Update or insert `rows` by the sink's key."""
    _prepare(rows, target)
    path, key = target.log.path, target.sink.key
    _until_committed(lambda: merge_by_key(rows.sparkSession, rows, path, key, entry.to_text()), target.log)
    return _newest(target.log)


def insert_new(rows: DataFrame, log: TableLog, key: list[str], entry: LedgerEntry) -> int:
    """Insert the rows whose key the table does not hold; returns how many."""
    session = rows.sparkSession
    condition = " AND ".join(f"t.`{column}` <=> s.`{column}`" for column in key)

    def insert() -> None:
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", entry.to_text())
        try:
            table = DeltaTable.forPath(session, log.path).alias("t")
            table.merge(rows.alias("s"), condition).whenNotMatchedInsertAll().execute()
        finally:
            session.conf.unset("spark.databricks.delta.commitInfo.userMetadata")

    _until_committed(insert, log)
    return _newest(log).rows or 0


def _prepare(rows: DataFrame, target: RangeTarget) -> None:
    if target.log.refresh() is None:
        create_table(rows, target.log, target.sink)
        target.log.refresh()
    target.log.check_columns(target.columns)


def _until_committed(write: Callable[[], None], log: TableLog) -> None:
    """Write again after each commit lost to another writer; Delta lost nothing of it.

    Raises:
        UnavailableError: TIDE-SINK-002, once the attempts are used up.
    """
    for _ in range(COMMIT_ATTEMPTS):
        try:
            return write()
        except (PySparkException, Py4JJavaError) as error:
            if "Concurrent" not in str(error):
                raise
            lost = error
    raise UnavailableError(
        "TIDE-SINK-002",
        "Other writers won every attempt to commit.",
        facts={"table": log.path, "attempts": COMMIT_ATTEMPTS},
        fix="suspend the stream for the length of the backfill, or choose a smaller range",
        runbook="backfill",
    ) from lost


def _newest(log: TableLog) -> Written:
    table = log.refresh()
    if table is None:
        return Written(committed=False)
    return Written(True, rows_written(table.history(1)[0].get("operationMetrics") or {}), table.version())
