"""The spark writer: Delta's own, for merges, replaced tables and features that delta-rs lacks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemill.errors import DataError
from tidemill.names import sql_table
from tidemill.sinks.apply_changes import (
    changed_history,
    forget_deletes,
    merge_newer,
    merge_resolved,
    newest_changes,
    resolved_changes,
)
from tidemill.sinks.batch_commit import BatchCommit, Staged, StepDone, Written, nothing_more
from tidemill.sinks.change_rows import PASSING, VALID_FROM, change_rows, check_changes
from tidemill.sinks.empty_partitions import refusing_empty_texts, without_empty_texts
from tidemill.sinks.nesting import check_levels
from tidemill.sinks.null_keys import null_key_counts, refuse_null_keys
from tidemill.sinks.table_columns import table_columns
from tidemill.sinks.table_log import TableLog
from tidemill.spec.column_names import quoted, quoted_field
from tidemill.spec.delta_sink import DeltaSink

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# Number of checks, and seconds between them, for a table that a racing driver creates. Delta's first commit
# takes a second or two on a busy machine.
_LOOKS_FOR_A_TABLE, _LOOK_SECONDS = 25, 0.2

# Delta's error classes for a folder that has a log without commits: the table is being created, or its
# creator was killed.
_HALF_MADE = ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "DELTA_TABLE_NOT_FOUND")

# Column with the number of rows of one key.
_ROWS = f"{PASSING}rows"

# Number of digits at the beginning of a commit's name.
_DIGITS = 20


@dataclass(frozen=True)
class SparkWriter:
    """Appends, merges or replaces, each batch once: data, transaction version, ledger entry in one commit.

    Args:
        log: The table's log, read through delta-rs.
        arrow_schema: Columns of the table.
        sink: The declaration: mode, key, layout.
        step_done: Called after each step.
    """

    log: TableLog
    arrow_schema: pa.Schema
    sink: DeltaSink
    step_done: StepDone = nothing_more

    @property
    def passes(self) -> int:
        """Return 2 for a merge, which first checks for repeated keys or missing sequences; else 1."""
        return 2 if self.sink.merges else 1

    @property
    def reads_when_staging(self) -> bool:
        """Return True for a merge; otherwise Delta's writer reads the rows only at the commit."""
        return self.sink.merges

    def check(self) -> None:
        """Raise an error for other columns, and for updates or deletes of an append-only table."""
        self.log.refresh()
        self._check()

    def stage(self, frame: DataFrame) -> Staged:
        """Create the table, and refuse other columns and ambiguous merges."""
        rows = without_empty_texts(change_rows(frame, self.sink), self.sink.partition_by)
        if self.log.refresh() is None:
            create_table(rows, self.log, self.sink)
            self.log.refresh()
        lacking = self._check()
        with refusing_empty_texts(self.log.path):
            if self.sink.mode == "merge":
                check_keys(rows, self.log.path, self.sink)
            elif self.sink.merges:
                check_changes(frame, self.log.path, self.sink)
        return partial(self.commit, rows, lacking)

    def commit(self, frame: DataFrame, lacking: tuple[str, ...], wanted: BatchCommit) -> Written:
        """Commit in one Delta transaction; Delta silently skips a batch that a racing driver committed.

        Args:
            frame: The rows.
            lacking: Columns that the table lacks; they are added in the same transaction.
            wanted: The batch.
        """
        commit = wanted.adding(lacking)
        with refusing_empty_texts(self.log.path):
            if self.sink.merges:
                self._merge(frame, commit)
            else:
                self._save(frame, commit)
        self.step_done("committed")
        found = self.log.look(commit)
        if found is None or found.entry != commit.entry:
            return Written(committed=False)
        return Written(True, found.rows, found.version)

    def _check(self) -> tuple[str, ...]:
        if self.sink.mode != "append":
            self.log.check_changeable()
        return self.log.check_columns(self.arrow_schema, self.sink.adds_columns)

    def _save(self, frame: DataFrame, commit: BatchCommit) -> None:
        (
            frame.write.format("delta")
            .mode("overwrite" if self.sink.mode == "replace" else "append")
            .options(**self.sink.options)
            .option("mergeSchema", bool(commit.entry.columns_added))
            .option("txnAppId", commit.app_id)
            .option("txnVersion", commit.batch_id)
            .option("userMetadata", commit.entry.to_text())
            .save(self.log.path)
        )

    def _merge(self, frame: DataFrame, commit: BatchCommit) -> None:
        # MERGE takes its transaction only from the session; the version resets itself after one use.
        conf = frame.sparkSession.conf
        settings = {
            _TXN_APP_ID: commit.app_id,
            _TXN_VERSION: str(commit.batch_id),
            _USER_METADATA: commit.entry.to_text(),
        }
        for name, value in settings.items():
            conf.set(name, value)
        try:
            merge_rows(frame, self.log.path, self.sink, bool(commit.entry.columns_added))
        finally:
            for name in settings:
                conf.unset(name)


def create_table(frame: DataFrame, log: TableLog, sink: DeltaSink) -> None:
    """Create the sink's table with the frame's columns, all nullable, unless it exists.

    Of racing creators one wins, and the others continue with its table. Leftovers of a creator that was
    killed before its first commit are removed. Delta treats any non-empty folder as a table, but then finds
    none in it.
    """
    check_levels(table_columns(frame.schema), log.path)
    builder = DeltaTable.createIfNotExists(frame.sparkSession).location(log.path)
    # Without a name, Delta (4.2) puts the location into SQL without quoting its backticks.
    builder = builder.tableName(sql_table(log.path))
    for name, value in log.properties.items():
        builder = builder.property(name, value)
    for field in frame.schema.toNullable():
        builder = builder.addColumn(field.name, field.dataType, nullable=True)
    if sink.cluster_by:
        builder = builder.clusterBy(*(quoted_field(name, frame.columns) for name in sink.cluster_by))
    if sink.partition_by:
        builder = builder.partitionedBy(*sink.partition_by)
    try:
        builder.execute()
    except AnalysisException as error:
        if error.getCondition() not in _HALF_MADE:
            raise
        if not _appears(log):
            _clear_log(frame.sparkSession, f"{log.path}/_delta_log")
            builder.execute()


def _clear_log(session: Any, path: str) -> None:
    """Delete a log without commits; keep it if a writer commits in the meantime."""
    folder = session._jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return
    for status in files.listStatus(folder):
        if not status.getPath().getName()[:_DIGITS].isdecimal():
            files.delete(status.getPath(), True)
    # Delete the folder only if it is empty.
    if not list(files.listStatus(folder)):
        files.delete(folder, False)


def _appears(log: TableLog) -> bool:
    """Return True if another creator's table appears within a few seconds."""
    for _ in range(_LOOKS_FOR_A_TABLE):
        if log.refresh() is not None:
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def check_keys(frame: DataFrame, path: str, sink: DeltaSink) -> None:
    """Raise an error for rows without a key, and for keys with several rows; reads all of them.

    Raises:
        DataError: TIDE-SINK-022; TIDE-SINK-004, because no row of several can be preferred.
    """
    rows = F.col(_ROWS)
    keys = frame.groupBy(*map(quoted, sink.key)).agg(F.count(F.lit(1)).alias(_ROWS))
    (found,) = keys.agg(F.max(rows).alias(_ROWS), *null_key_counts(sink.key, rows)).collect()
    refuse_null_keys(list(found)[1:], path, sink)
    if (found[_ROWS] or 0) > 1:
        raise DataError(
            "TIDE-SINK-004",
            "The result holds several rows for one key. Nothing was written.",
            facts={"table": path, "key": ", ".join(sink.key), "rows_of_one_key": found[_ROWS]},
            fix="make the transform give one row per key, or name more columns in `key`",
        )


def merge_rows(rows: DataFrame, path: str, sink: DeltaSink, adds_columns: bool = False) -> None:
    """Merge rows with distinct keys, or changes with any keys; the caller has checked them."""
    if sink.mode == "scd1":
        merge_newest(rows, path, sink)
        return
    key = sink.key
    if sink.mode == "scd2":
        rows, key = changed_history(rows, path, sink), [*sink.key, VALID_FROM]
    merge = merge_on(rows, path, key)
    if adds_columns:
        merge = merge.withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def merge_newest(rows: DataFrame, path: str, sink: DeltaSink) -> None:
    """Merge changes into an scd1 table; read the table first if a change may depend on it."""
    if sink.cdc is not None and (sink.cdc.truncate or sink.cdc.unchanged):
        merge = merge_resolved(merge_on(resolved_changes(rows, path, sink), path, sink.key))
    else:
        merge = merge_newer(merge_on(newest_changes(rows, sink), path, sink.key), rows.columns, sink)
    forget_deletes(merge, sink).execute()


def merge_on(rows: DataFrame, path: str, key: list[str]) -> DeltaMergeBuilder:
    """Return a merge of rows (`s`) into a table (`t`) by key, without clauses; null equals null."""
    condition = " AND ".join(f"{quoted(name, 't.')} <=> {quoted(name, 's.')}" for name in key)
    return DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("s"), condition)
