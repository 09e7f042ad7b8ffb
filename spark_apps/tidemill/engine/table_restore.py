"""The restore of a table that delta-rs cannot write: clustered, or with deletion vectors."""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

from tidemill.engine.verb_process import run_part
from tidemill.ledger.table_restore import (
    CLOSED,
    TableRestore,
    commits_since,
    next_action,
    open_existing,
    written_by_others,
)
from tidemill.names import sql_table

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# By default Delta (4.4) silently skips a commit without any action.
_SKIP_EMPTY = "spark.databricks.delta.skipRecordingEmptyCommits"


def restore_with_spark(spark: SparkSession, wanted: TableRestore) -> None:
    """Restore like `restore_through_delta_rs`, but in several commits.

    1. Close the transaction ids with writes of no rows, because Spark's RESTORE carries no transaction. From
       here on, only other writers can still commit.
    2. Decide, now that no driver of the pipeline can commit any more, and RESTORE. If another writer has
       committed between the decision and the RESTORE, undo the RESTORE.
    3. Begin the new generation with another write of no rows.

    Raises:
        GateRefusedError: The same errors; TIDE-CKPT-040 also if another writer has committed within step 2.
    """
    table = open_existing(wanted)
    if next_action(commits_since(wanted, table), wanted) == "done":
        return
    # 1.
    for app_id in wanted.closes:
        if table.transaction_version(app_id) != CLOSED:
            _write_nothing(spark, wanted.path, wanted.note, (app_id, CLOSED))
    # 2.
    table = open_existing(wanted)
    if next_action(commits_since(wanted, table), wanted) == "restore":
        _restore(spark, wanted.path, wanted.version, wanted.note)
        _check_nothing_between(spark, wanted, table.version())
    # 3.
    _write_nothing(spark, wanted.path, wanted.base.to_text(), wanted.base.transaction)


def _restore(spark: SparkSession, path: str, version: int, note: str) -> None:
    spark.conf.set(_USER_METADATA, note)
    try:
        spark.sql(f"RESTORE TABLE {sql_table(path)} TO VERSION AS OF {int(version)}").collect()
    finally:
        spark.conf.unset(_USER_METADATA)


def _check_nothing_between(spark: SparkSession, wanted: TableRestore, decided_at: int) -> None:
    since = commits_since(wanted, open_existing(wanted))
    restored = next(c.version for c in since if c.operation == "RESTORE" and c.note == wanted.note)
    between = [c for c in since if decided_at < c.version < restored and not c.changes_no_row]
    if between:
        _restore(spark, wanted.path, restored - 1, wanted.note_of_regret)
        raise written_by_others(wanted.path, between)


def _write_nothing(
    spark: SparkSession, path: str, user_metadata: str, transaction: tuple[str, int] | None
) -> None:
    columns = spark.read.format("delta").load(path).schema
    rows = spark.createDataFrame([], columns).write.format("delta").mode("append")
    if transaction is not None:
        rows = rows.option("txnAppId", transaction[0]).option("txnVersion", transaction[1])
    spark.conf.set(_SKIP_EMPTY, "false")
    try:
        rows.option("userMetadata", user_metadata).save(path)
    finally:
        spark.conf.unset(_SKIP_EMPTY)


def _act(spark: SparkSession, arguments: argparse.Namespace) -> None:
    restore_with_spark(spark, TableRestore.from_text(arguments.restore))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.table_restore", description=__doc__)
    parser.add_argument("--restore", required=True)
    sys.exit(run_part(parser, _act))
