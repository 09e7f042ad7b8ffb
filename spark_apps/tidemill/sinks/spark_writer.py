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
from tidemill.spec.sinks import DeltaSink

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# How often, and how long between in seconds, to look for a table that a racing driver makes: its first commit
# takes Delta a second or two on a busy machine.
_LOOKS_FOR_A_TABLE, _LOOK_SECONDS = 25, 0.2

# What Delta says of a folder that has a log without commits: of a table that is just being made, or whose
# maker was killed.
_HALF_MADE = ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "DELTA_TABLE_NOT_FOUND")

# Column of the number of rows of one key.
_ROWS = f"{PASSING}rows"

# The name of a commit begins with so many.
_DIGITS = 20


@dataclass(frozen=True)
class SparkWriter:
    """Appends, merges or replaces, each batch once: data, transaction version, ledger entry in one commit.

    Args:
        log: The table's log, read through delta-rs.
        arrow_schema: Columns of the table.
        sink: The declaration: mode, key, layout.
        step_done: Told of each step.
    """

    log: TableLog
    arrow_schema: pa.Schema
    sink: DeltaSink
    step_done: StepDone = nothing_more

    @property
    def passes(self) -> int:
        """A merge looks first for repeated keys, or for changes without a sequence."""
        return 2 if self.sink.merges else 1

    @property
    def reads_when_staging(self) -> bool:
        """Delta's writer reads the rows when it commits."""
        return self.sink.merges

    def check(self) -> None:
        """Refuse other columns, and changes of a table that takes appends only."""
        self.log.refresh()
        self._check()

    def stage(self, frame: DataFrame) -> Staged:
        """Make the table, refuse other columns and what a merge cannot decide."""
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
        """One Delta transaction; Delta skips, without a word, a batch that a racing driver committed.

        Args:
            frame: The rows.
            lacking: Columns that the table lacks: it gets them in the same transaction.
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

    Of racing creators one wins and the others go on with its table. What one left that was killed before its
    first commit is cleared away: to Delta a folder with anything in it is a table, and then none is there.
    """
    check_levels(table_columns(frame.schema), log.path)
    builder = DeltaTable.createIfNotExists(frame.sparkSession).location(log.path)
    # Without a name, Delta (4.2) puts the location into SQL, and does not quote its backticks.
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
    """Remove a log without commits; one that someone commits to meanwhile stays."""
    folder = session._jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return
    for status in files.listStatus(folder):
        if not status.getPath().getName()[:_DIGITS].isdecimal():
            files.delete(status.getPath(), True)
    # Not with what is in it.
    if not list(files.listStatus(folder)):
        files.delete(folder, False)


def _appears(log: TableLog) -> bool:
    """Whether someone else's table is there within a moment."""
    for _ in range(_LOOKS_FOR_A_TABLE):
        if log.refresh() is not None:
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def check_keys(frame: DataFrame, path: str, sink: DeltaSink) -> None:
    """Refuse rows without a key, and rows of which several have one key; reads all of them.

    Raises:
        DataError: TIDE-SINK-022; TIDE-SINK-004: which row should win is not decidable.
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
    """Merge rows of which no two have one key, or changes, of which any may; check them before."""
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
    """Merge changes into an scd1 table, which has to be read first where a change may depend on it."""
    if sink.cdc is not None and (sink.cdc.truncate or sink.cdc.unchanged):
        merge = merge_resolved(merge_on(resolved_changes(rows, path, sink), path, sink.key))
    else:
        merge = merge_newer(merge_on(newest_changes(rows, sink), path, sink.key), rows.columns, sink)
    forget_deletes(merge, sink).execute()


def merge_on(rows: DataFrame, path: str, key: list[str]) -> DeltaMergeBuilder:
    """A merge of rows (`s`) into a table (`t`) by their key, to which clauses are added; null equals null."""
    condition = " AND ".join(f"{quoted(name, 't.')} <=> {quoted(name, 's.')}" for name in key)
    return DeltaTable.forPath(rows.sparkSession, path).alias("t").merge(rows.alias("s"), condition)
