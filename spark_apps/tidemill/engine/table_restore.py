"""Restoring a table that delta-rs cannot write: clustered, or with deletion vectors."""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import SparkSession

from tidemill.engine.verb_process import run_part
from tidemill.ledger.read import commits_of
from tidemill.ledger.table_restore import (
    CLOSED,
    TableRestore,
    changes_no_row,
    is_closed,
    next_action,
    open_existing,
    written_by_others,
)

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def restore_with_spark(spark: SparkSession, wanted: TableRestore) -> None:
    """As `restore_through_delta_rs`.

    1. Close the transaction ids with writes of no row: a RESTORE of Spark carries no transaction. From here
       on only others can still write.
    2. Decide, now that nothing more of ours can come.
    3. RESTORE, and look whether it took back more than what was decided upon.

    Raises:
        GateRefusedError: As there; TIDE-CKPT-040 also if somebody committed between steps 2 and 3.
    """
    table = open_existing(wanted.path)
    if next_action(commits_of(table), is_closed(table, wanted), wanted) == "done":
        return
    # 1.
    for app_id in wanted.closes:
        if table.transaction_version(app_id) != CLOSED:
            _write_nothing(spark, wanted, app_id)
    # 2.
    table = open_existing(wanted.path)
    decided_at = table.version()
    if next_action(commits_of(table), is_closed(table, wanted), wanted) != "restore":
        return
    # 3.
    spark.conf.set(_USER_METADATA, wanted.note)
    try:
        spark.sql(f"RESTORE TABLE delta.`{wanted.path}` TO VERSION AS OF {int(wanted.version)}").collect()
    finally:
        spark.conf.unset(_USER_METADATA)
    _check_nothing_between(wanted, decided_at)


def _check_nothing_between(wanted: TableRestore, decided_at: int) -> None:
    commits = commits_of(open_existing(wanted.path))
    restored = next(c.version for c in commits if c.operation == "RESTORE" and c.note == wanted.note)
    between = [c for c in commits if decided_at < c.version < restored and not changes_no_row(c)]
    if between:
        raise written_by_others(wanted.path, between)


def _write_nothing(spark: SparkSession, wanted: TableRestore, app_id: str) -> None:
    columns = spark.read.format("delta").load(wanted.path).schema
    (
        spark.createDataFrame([], columns)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", CLOSED)
        .option("userMetadata", wanted.note)
        .save(wanted.path)
    )


def _act(spark: SparkSession, arguments: argparse.Namespace) -> None:
    document = json.loads(arguments.restore)
    restore_with_spark(spark, TableRestore(**{**document, "closes": tuple(document["closes"])}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.table_restore", description=__doc__)
    parser.add_argument("--restore", required=True)
    sys.exit(run_part(parser, _act))
