"""The spark writer: Delta's own, for merge, replace and tables with features that delta-rs does not write."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.errors import DataError
from tidemill.ledger.read import rows_written
from tidemill.sinks.batch_commit import BatchCommit, StepDone, Written, nothing_more
from tidemill.sinks.table_log import TableLog
from tidemill.spec.sinks import DeltaSink

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# Commits looked at to find our own a moment after it; others write the table at the same time at most.
_RECENT_COMMITS = 20


@dataclass(frozen=True)
class SparkWriter:
    """Appends, merges or replaces, each batch once.

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

    def write(self, frame: DataFrame, commit: BatchCommit) -> Written:
        """Write the batch unless it is already there.

        1. Make or open the table; refuse other columns; skip a batch that is there (Delta would skip it
           too, without a word).
        2. One Delta transaction: data, transaction version, ledger entry.
        """
        # 1.
        self.prepare(frame)
        last = self.log.last_batch(commit.app_id)
        if last is not None and last >= commit.batch_id:
            return Written(committed=False)
        # 2.
        if self.sink.mode == "merge":
            self._merge(frame, commit)
        else:
            self._save(frame, commit)
        self.step_done("committed")
        return self._written(commit)

    def prepare(self, frame: DataFrame) -> None:
        """Create the table if there is none, and refuse one with other columns."""
        if self.log.refresh() is None:
            create_table(frame, self.log, self.sink)
            self.log.refresh()
        self.log.check_columns(self.arrow_schema)

    def _save(self, frame: DataFrame, commit: BatchCommit) -> None:
        (
            frame.write.format("delta")
            .mode("overwrite" if self.sink.mode == "replace" else "append")
            .options(**self.sink.options)
            .option("txnAppId", commit.app_id)
            .option("txnVersion", commit.batch_id)
            .option("userMetadata", commit.entry.to_text())
            .save(self.log.path)
        )

    def _merge(self, frame: DataFrame, commit: BatchCommit) -> None:
        # MERGE takes its transaction only from the session; the version resets itself after one use.
        session = frame.sparkSession
        session.conf.set(_TXN_APP_ID, commit.app_id)
        session.conf.set(_TXN_VERSION, str(commit.batch_id))
        try:
            merge_by_key(session, frame, self.log.path, self.sink.key, commit.entry.to_text())
        finally:
            session.conf.unset(_TXN_APP_ID)
            session.conf.unset(_TXN_VERSION)

    def _written(self, commit: BatchCommit) -> Written:
        """What the commit says of itself; Delta skips a batch that a racing driver committed meanwhile."""
        table = self.log.refresh()
        recent = table.history(_RECENT_COMMITS) if table is not None else []
        for action in recent:
            if action.get("userMetadata") == commit.entry.to_text():
                rows = rows_written(action.get("operationMetrics") or {})
                return Written(True, rows, action["version"])
        return Written(committed=False)


def create_table(frame: DataFrame, log: TableLog, sink: DeltaSink) -> None:
    """Create the sink's table with the frame's columns, all nullable, unless it exists."""
    builder = DeltaTable.createIfNotExists(frame.sparkSession).location(log.path)
    for name, value in log.properties.items():
        builder = builder.property(name, value)
    for field in frame.schema.toNullable():
        builder = builder.addColumn(field.name, field.dataType, nullable=True)
    if sink.cluster_by:
        builder = builder.clusterBy(*sink.cluster_by)
    if sink.partition_by:
        builder = builder.partitionedBy(*sink.partition_by)
    builder.execute()


def merge_by_key(
    session: SparkSession, frame: DataFrame, path: str, key: list[str], user_metadata: str
) -> None:
    """Update the rows whose key is in the table, insert the others.

    Raises:
        DataError: TIDE-SINK-004, if the frame has a key twice: which row should win is not decidable.
    """
    repeated = frame.groupBy(*key).count().where(F.col("count") > 1).limit(1).collect()
    if repeated:
        raise DataError(
            "TIDE-SINK-004",
            "The result holds several rows for one key. Nothing was written.",
            facts={"table": path, "key": ", ".join(key), "rows_of_one_key": repeated[0]["count"]},
            fix="make the transform give one row per key, or name more columns in `key`",
        )
    condition = " AND ".join(f"t.`{column}` <=> s.`{column}`" for column in key)
    session.conf.set(_USER_METADATA, user_metadata)
    try:
        (
            DeltaTable.forPath(session, path)
            .alias("t")
            .merge(frame.alias("s"), condition)
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
    finally:
        session.conf.unset(_USER_METADATA)
