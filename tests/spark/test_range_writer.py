"""Replacing rows while others commit: a lost commit is tried again, then the stream waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from tests.support.commits import commit_of
from tidemill.errors import DataError
from tidemill.sinks.range_writer import RangeTarget, prepare_table, replace_rows
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink
from tidemill.storage.parquet_part import write_part

COLUMNS = pa.schema([("id", pa.int64()), ("price", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"id": list(range(10)), "price": [0] * 10}))
    return path


def rows_while(spark: SparkSession, table: str, others_commit: Callable[[], Any]) -> DataFrame:
    """Return orders 2 to 4 with a new price; `others_commit` is called each time they are computed."""

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        others_commit()
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": batch["id"], "price": [7] * len(batch)})

    return spark.range(2, 5, numPartitions=1).mapInArrow(compute, "id long, price long")


def once(table: str, act: Callable[[], Any]) -> Callable[[], None]:
    """Does it the first time; across Spark's processes."""
    done = Path(table).with_name("once")

    def act_once() -> None:
        if not done.exists():
            done.touch()
            act()

    return act_once


@contextmanager
def turn_of(table: str) -> Iterator[None]:
    """Hold a backfill's turn as a file next to the table."""
    file = Path(table).with_name("turn")
    file.touch()
    yield
    file.unlink()
    # The stream continues before the backfill verifies its result.
    write_deltalake(table, pa.table({"id": [99, 98], "price": [0, 0]}), mode="append")


def replace(rows: DataFrame, table: str) -> int:
    """Replace the rows, and return the number of attempts. Three rows count despite other commits."""
    attempts: list[None] = []
    target = RangeTarget(TableLog(table), COLUMNS, DeltaSink(table="bronze/orders"), lambda: turn_of(table))
    prepare_table(rows, target)
    entry = commit_of(0).entry.model_copy(update={"mode": "backfill"})
    written = replace_rows(rows, target, entry, "id >= 2 AND id < 5", lambda: attempts.append(None))
    assert (written.committed, written.rows) == (True, 3)
    return len(attempts)


def order(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": [number], "price": [0]}, schema=COLUMNS)


def prices(table: str) -> dict[int, int]:
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["price"] for row in rows}


def test_a_commit_lost_to_somebody_who_changed_the_same_rows_is_tried_again(
    spark: SparkSession, table: str
) -> None:
    rows = rows_while(spark, table, once(table, lambda: DeltaTable(table).delete("id = 3 OR id = 9")))
    assert replace(rows, table) == 2
    assert prices(table) == {**dict.fromkeys(range(9), 0), 2: 7, 3: 7, 4: 7}


@pytest.mark.soak
def test_a_commit_lost_to_optimize_is_tried_again(spark: SparkSession, table: str) -> None:
    write_deltalake(table, pa.table({"id": [10], "price": [0]}), mode="append")

    def compact() -> None:
        DeltaTable(table).optimize.compact()

    rows = rows_while(spark, table, once(table, compact))
    assert replace(rows, table) == 2
    assert prices(table) == {**dict.fromkeys(range(11), 0), 2: 7, 3: 7, 4: 7}


@pytest.mark.soak
def test_a_stream_that_appends_again_and_again_waits_for_the_turn_of_a_backfill(
    spark: SparkSession, table: str
) -> None:
    """Delta takes each append for one that the replacement should have read."""

    def append() -> None:
        if not Path(table).with_name("turn").exists():
            log = TableLog(table)
            version = log.refresh().version
            part = write_part(table, f"streamed-{version}.parquet", COLUMNS, iter([order(10 + version)]))
            log.commit([part], commit_of(version), COLUMNS)

    assert replace(rows_while(spark, table, append), table) == 3
    assert prices(table) == {**dict.fromkeys([*range(12), 98, 99], 0), 2: 7, 3: 7, 4: 7}


def test_a_backfill_writes_no_row_without_a_key(spark: SparkSession, table: str) -> None:
    sink = DeltaSink(table="silver/orders", mode="merge", key=["id"])
    target = RangeTarget(TableLog(table), COLUMNS, sink, lambda: turn_of(table))
    rows = spark.createDataFrame([(2, 7), (None, 7)], "id long, price long")
    entry = commit_of(0).entry.model_copy(update={"mode": "backfill"})
    with pytest.raises(DataError) as refused:
        replace_rows(rows, target, entry, "id >= 2 AND id < 5", lambda: None)
    assert (refused.value.error_id, refused.value.facts["rows_without"]) == ("TIDE-SINK-022", {"id": 1})
    assert DeltaTable(table).version() == 0
