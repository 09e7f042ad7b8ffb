"""Writes of a backfill: each one replaces a range, so a repeated one changes no row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from delta.exceptions.captured import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
)
from delta.tables import DeltaMergeBuilder
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidemill.errors import DataError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.lost_race import Race
from tidemill.ledger.read import read_ledger
from tidemill.sinks.batch_commit import Written
from tidemill.sinks.empty_partitions import refusing_empty_texts, without_empty_texts
from tidemill.sinks.null_keys import check_null_keys
from tidemill.sinks.spark_writer import create_table, merge_on
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink

# Delta's errors for a commit that another writer's commit made impossible.
_LOST_COMMITS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
)

# Maximum number of lost commits before a backfill gives up, and before it makes the stream wait.
COMMIT_ATTEMPTS = 20
ATTEMPTS_BESIDE_THE_STREAM = 2

# Maximum number of stream commits between a backfill's own commit and the search for it.
COMMITS_SINCE = 100

# Makes the pipeline's own stream wait.
TakeTurn = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class RangeTarget:
    """The table that a backfill writes to.

    Args:
        log: The table's log.
        columns: Columns of the rows.
        sink: The declaration: key, layout, options.
        turn: Makes the pipeline's own stream wait.
        transaction: Delta's id and version of a single commit, which Delta skips if it already has it; None
            for a commit that is written again.
    """

    log: TableLog
    columns: pa.Schema
    sink: DeltaSink
    turn: TakeTurn
    transaction: tuple[str, int] | None = None


def replace_rows(
    rows: DataFrame,
    target: RangeTarget,
    entry: LedgerEntry,
    condition: str | None,
    check: Callable[[], None],
) -> Written:
    """Replace the rows that match `condition` with `rows`; without a condition, replace the whole table.

    Args:
        rows: Rows that all match the condition.
        target: The prepared table.
        entry: Ledger entry of the commit.
        condition: SQL.
        check: Raises if the rows must not be written any more; called before each attempt.

    Raises:
        DataError: TIDE-BACK-014, if a row does not match; TIDE-SINK-001, if the table was changed in the
            meantime; TIDE-SINK-022, if a row lacks a key.
    """
    if target.sink.merges:
        check_null_keys(rows, target.log.path, target.sink)
    target.log.refresh()
    lacking = target.log.check_columns(target.columns, target.sink.adds_columns)
    entry = entry.model_copy(update={"columns_added": lacking or None})
    writer = (
        without_empty_texts(rows, target.sink.partition_by)
        .write.format("delta")
        .mode("overwrite")
        .options(**target.sink.options)
        .option("mergeSchema", bool(lacking))
        .option("userMetadata", entry.to_text())
    )
    if condition is not None:
        writer = writer.option("replaceWhere", condition)
    if target.transaction is not None:
        app_id, version = target.transaction
        writer = writer.option("txnAppId", app_id).option("txnVersion", version)

    def write() -> None:
        check()
        writer.save(target.log.path)

    try:
        with refusing_empty_texts(target.log.path):
            _until_committed(write, target.log, target.turn)
    except (PySparkException, Py4JJavaError) as error:
        if "DELTA_REPLACE_WHERE_MISMATCH" in str(error):
            raise _outside(target, condition) from error
        raise
    return _written(target.log, entry)


@dataclass(frozen=True)
class KeyedTable:
    """A table whose rows are identified by a key.

    Args:
        log: The table's log.
        entry: Ledger entry of each commit.
        turn: Makes the pipeline's own stream wait.
    """

    log: TableLog
    entry: LedgerEntry
    turn: TakeTurn

    def insert_new(self, rows: DataFrame, key: list[str]) -> int:
        """Insert the rows whose key is not in the table; return their number."""
        self._merge(rows, key, lambda merge: merge.whenNotMatchedInsertAll())
        return _written(self.log, self.entry).rows or 0

    def delete(self, rows: DataFrame, key: list[str]) -> None:
        """Delete the rows whose key is among those of `rows`."""
        self._merge(rows, key, lambda merge: merge.whenMatchedDelete())

    def _merge(
        self, rows: DataFrame, key: list[str], act: Callable[[DeltaMergeBuilder], DeltaMergeBuilder]
    ) -> None:
        session = rows.sparkSession

        def merge() -> None:
            session.conf.set("spark.databricks.delta.commitInfo.userMetadata", self.entry.to_text())
            try:
                act(merge_on(rows, self.log.path, key)).execute()
            finally:
                session.conf.unset("spark.databricks.delta.commitInfo.userMetadata")

        _until_committed(merge, self.log, self.turn)


def prepare_table(rows: DataFrame, target: RangeTarget) -> None:
    """Create the table if it does not exist, and refuse one with other columns.

    Raises:
        DataError: TIDE-SINK-001.
    """
    if target.log.refresh() is None:
        create_table(rows, target.log, target.sink)
        target.log.refresh()
    target.log.check_columns(target.columns, target.sink.adds_columns)


def _until_committed(write: Callable[[], None], log: TableLog, turn: TakeTurn) -> None:
    """Write again after each commit that was lost to another writer; a lost commit leaves no rows.

    Raises:
        UnavailableError: TIDE-SINK-002, once the attempts are used up.
    """
    numbers = count()
    fix = "stop the stream for the length of the backfill, or choose a smaller range"
    race = Race({"table": log.path}, fix, "backfill", _LOST_COMMITS, COMMIT_ATTEMPTS)
    with ExitStack() as block:

        def attempt() -> None:
            if next(numbers) == ATTEMPTS_BESIDE_THE_STREAM:
                block.enter_context(turn())
            write()

        race.until_won(attempt)


def _written(log: TableLog, entry: LedgerEntry) -> Written:
    """Return the result of the newest commit with this entry; a stream may have committed since."""
    found = (commit for commit in read_ledger(log.path, COMMITS_SINCE) if commit.entry == entry)
    commit = next(found, None)
    return Written(False) if commit is None else Written(True, commit.rows, commit.version)


def _outside(target: RangeTarget, condition: str | None) -> DataError:
    return DataError(
        "TIDE-BACK-014",
        "The transform gave rows outside of the range that is replaced. Nothing was written to this table.",
        facts={"table": target.log.path, "range": condition},
        fix="let the transform keep the columns by which rows are replaced as they are",
        runbook="backfill",
    )
