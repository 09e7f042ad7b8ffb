"""A copy of a table with deletion vectors, which the data files alone do not determine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.ledger.table_copy import TableCopy, copy_table, size_of
from tidemill.storage.store import Store

BASE = LedgerEntry(
    pipeline="orders",
    output="bronze/orders",
    mode="base",
    run_id="r",
    rows=0,
    code=Code(tidemill="0", digest="d", spec="s"),
)


def test_a_table_with_deletion_vectors_is_copied_after_the_statements_of_the_fix(
    spark: SparkSession, tmp_path: Path
) -> None:
    origin, target = str(tmp_path / "origin"), str(tmp_path / "copy")
    rows = spark.range(10).coalesce(1).write.format("delta")
    rows.option("delta.enableDeletionVectors", "true").save(origin)
    spark.sql(f"DELETE FROM delta.`{origin}` WHERE id = 3")
    with pytest.raises(GateRefusedError) as refused:
        size_of(origin, 1)
    assert refused.value.error_id == "TIDE-CKPT-078"
    assert refused.value.facts["features"] == "deletionVectors"
    statements = re.findall(r"(?:ALTER|REORG) TABLE .+?\)(?= and| in)", refused.value.fix or "")
    assert len(statements) == 2
    for statement in statements:
        spark.sql(statement)
    version = DeltaTable(origin).version()
    copy_table(Store(str(tmp_path)), TableCopy(origin, version, target, BASE))
    ids = DeltaTable(target).to_pyarrow_table()["id"].to_pylist()
    assert sorted(ids) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
