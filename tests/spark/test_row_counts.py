"""The rows of a table, counted without a JVM, are those that Spark reads."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tidemill.ledger.read import open_table, row_count
from tidemill.names import sql_table


def test_rows_that_deletion_vectors_take_out_are_not_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    spark.sql(
        f"CREATE TABLE {sql_table(table)} (id long) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.range(10).coalesce(1).write.format("delta").mode("append").save(table)
    spark.sql(f"DELETE FROM {sql_table(table)} WHERE id < 3")
    opened = open_table(table)
    assert opened is not None
    # Spark kept the file and wrote a vector, else the test would show nothing.
    assert opened.get_add_actions(flatten=True).column("num_records").to_pylist() == [10]
    assert row_count(opened) == spark.read.format("delta").load(table).count() == 7
