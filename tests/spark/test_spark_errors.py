"""Real errors of Spark, Delta and Python workers: each ends with the id that says what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.followed_fixes import typed
from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import newest_batch
from tidemill.engine.availability import failure_of as failure_of_driver
from tidemill.engine.session_conf import state_conf
from tidemill.errors import CrashError, DataError, GateRefusedError, TidemillError
from tidemill.sinks.table_log import TableLog

WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    counts = readings.groupBy(F.window("at", "1 minute"), "id").count()
    return counts.select(F.col("window.start").alias("at"), "id", "count")
"""


def failure_of(pipeline: LakePipeline) -> TidemillError:
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        pipeline.run_incremental()
    return failure_of_driver(pipeline.resolved, failed.value)


def run(lake: Lake, words: list[str]) -> int:
    """Run the command that a fix names."""
    return CommandLine(lake.folder, lambda: SimpleNamespace(out="", err=""))(*words)


def land_readings(lake: Lake, minute: int) -> None:
    rows = [{"id": number, "at": f"2026-01-01T00:{minute:02}:00Z"} for number in range(50)]
    lake.land_rows(f"landing/readings/{minute}.json", rows)


def windows(lake: Lake, **run: Any) -> LakePipeline:
    lake.transform("readings", WINDOWS)
    source = {"path": "landing/readings", "format": "json", "schema": "id long, at timestamp"}
    return lake.pipeline(
        "readings",
        source={"files": source},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform="readings:transform",
        sinks=[{"delta": {"table": "silver/readings"}}],
        run={"mode": "incremental", **run},
    )


def garble(file: Path) -> None:
    """Replace the bytes by as many other bytes."""
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[:middle] + bytes(255 - byte for byte in content[middle:]))


@pytest.fixture(params=["rocksdb", "memory"])
def state_store(request: pytest.FixtureRequest, lake: Lake) -> Iterator[str]:
    """Yield the shared session as a driver with this store sets it."""
    conf, store = lake.spark.conf, str(request.param)
    before = {name: str(conf.get(name)) for name in state_conf("memory")}
    for name, value in (state_conf("memory") if store == "memory" else {}).items():
        conf.set(name, value)
    yield store
    for name, value in before.items():
        conf.set(name, value)


def test_a_state_file_with_other_bytes_of_the_same_number(lake: Lake, state_store: str) -> None:
    pipeline = windows(lake, state_store=state_store)
    for minute in (1, 2):
        land_readings(lake, minute)
        pipeline.run_incremental()
    land_readings(lake, 3)
    # The state that batch 1 has left, the second one of the first run, stays whole.
    for file in pipeline.checkpoint.glob("state/0/[0-9]*/[34]*"):
        if file.suffix in (".delta", ".changelog", ".zip", ".snapshot"):
            garble(file)
    error = failure_of(pipeline)
    # Files of the store in memory end with a mark, which the gate looks for before Spark reads them.
    found = (DataError, "TIDE-CKPT-106") if state_store == "rocksdb" else (GateRefusedError, "TIDE-CKPT-016")
    assert (type(error), error.error_id) == found
    assert error.runbook == "checkpoint-state-lost"
    assert run(lake, typed(error.fix, "checkpoint rewind", {"BATCH": "1"})) == 0
    pipeline.run_incremental()
    assert newest_batch(pipeline) > 1


DIES = """
import os
from pyspark.sql import functions as F

@F.udf("string")
def upper(name):
    if name == "bad":
        os._exit(137)
    return name.upper()

def transform(orders):
    return orders.select("id", upper("name").alias("name"))
"""


def test_a_python_worker_that_is_killed(lake: Lake) -> None:
    lake.transform("orders", DIES)
    lake.land_rows("landing/orders/1.json", [{"id": 1, "name": "bad"}])
    source = {"path": "landing/orders", "format": "json", "schema": "id long, name string"}
    pipeline = lake.pipeline(
        "orders",
        source={"files": source},
        transform="orders:transform",
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    error = failure_of(pipeline)

    assert (type(error), error.error_id, error.exit_code) == (CrashError, "TIDE-RUN-008", 70)


LOOKS_UP = """
def transform(orders):
    rates = orders.sparkSession.read.parquet("{folder}")
    return orders.join(rates, "id", "left").select("id", "rate")
"""


def conflicting(lake: Lake, folder: Path) -> None:
    lake.spark.range(2).selectExpr("id", "2.0D AS rate").write.parquet(f"{folder}/day=1")
    lake.spark.range(2).selectExpr("id", "2.0D AS rate").write.parquet(f"{folder}/old/day=1")


def damaged(lake: Lake, folder: Path) -> None:
    lake.spark.range(2).selectExpr("id", "2.0D AS rate").coalesce(1).write.parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    whole = folder.parent / "whole"
    lake.spark.range(2).selectExpr("id", "2.0D AS rate").coalesce(1).write.parquet(str(whole))
    # Spark takes the columns from the first file.
    (folder / "z.parquet").write_bytes(b"PAR1" + file.read_bytes()[4:-40])
    for crc in folder.glob(".*.crc"):
        crc.unlink()


def truncated(lake: Lake, folder: Path) -> None:
    damaged(lake, folder)
    (folder / "z.parquet").write_bytes(b"no parquet at all, but some bytes")


@pytest.mark.parametrize(
    ("make", "error_id"),
    [(conflicting, "TIDE-SRC-012"), (damaged, "TIDE-SRC-011"), (truncated, "TIDE-SRC-011")],
)
def test_files_that_a_transform_reads(
    lake: Lake, make: Callable[[Lake, Path], None], error_id: str, tmp_path: Path
) -> None:
    folder = tmp_path / "rates"
    make(lake, folder)
    lake.transform("orders", LOOKS_UP.format(folder=folder))
    lake.land_rows("landing/orders/1.json", [{"id": 1}])
    pipeline = lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": "id long"}},
        transform="orders:transform",
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    error = failure_of(pipeline)

    assert (type(error), error.error_id) == (DataError, error_id)
    # Follow the fix: move the file out of the path that the transform reads.
    culprit = folder / ("old" if make is conflicting else "z.parquet")
    assert str(culprit) in str(error.facts["reason"])
    culprit.rename(tmp_path / "moved")
    pipeline.run_incremental()
    assert [row["id"] for row in lake.rows("bronze/orders")] == [1]


def test_a_source_table_that_was_made_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the gate has looked at it."""
    monkeypatch.setattr("tidemill.checkpoint.gate.source._table", lambda _: ())
    table = lake.root / "tables/bronze/raw"
    lake.spark.range(2).write.format("delta").save(str(table))
    pipeline = lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw"}},
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    table.rename(table.with_name("before"))
    lake.spark.range(2, 4).write.format("delta").save(str(table))
    error = failure_of(pipeline)
    assert (type(error), error.error_id) == (DataError, "TIDE-SRC-013")
    assert run(lake, typed(error.fix, "checkpoint reset", {})) == 0
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [0, 1, 2, 3]


def test_a_source_table_with_a_renamed_column_that_delta_may_not_follow(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Delta's schema log, which `tests/spark/test_mapped_columns.py` is about."""
    monkeypatch.setattr("tidemill.sources.read.COLUMN_MAPPING", "of no table")
    table = f"delta.`{lake.root}/tables/bronze/raw`"
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    lake.spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING delta {mapped}")
    lake.spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    lake.transform("orders", "def transform(raw):\n    return raw.select('id')\n")
    pipeline = lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw"}},
        transform="orders:transform",
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    lake.spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO label")
    lake.spark.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    error = failure_of(pipeline)
    assert (type(error), error.error_id) == (DataError, "TIDE-SRC-014")
    assert error.runbook == "source-table-changed"
    assert run(lake, typed(error.fix, "checkpoint reset", {})) == 0
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 1, 2]


def test_a_table_of_appends_only_takes_no_merge(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.land_rows("landing/orders/1.json", [{"id": 1}])
    pipeline = lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": "id long"}},
        sinks=[{"delta": {"table": "bronze/orders", "mode": "merge", "key": ["id"]}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    table = f"{lake.root}/tables/bronze/orders"
    lake.spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    lake.land_rows("landing/orders/2.json", [{"id": 1}])
    refused = failure_of(pipeline)
    assert (type(refused), refused.error_id, refused.facts["table"]) == (DataError, "TIDE-SINK-025", table)
    assert not (pipeline.checkpoint / "offsets/1").exists()

    # Set between that look and the commit, Delta refuses it.
    with monkeypatch.context() as later:
        later.setattr(TableLog, "check_changeable", lambda _: None)
        by_delta = failure_of(pipeline)
    assert (type(by_delta), by_delta.error_id) == (DataError, "TIDE-SINK-025")
    assert refused.runbook == by_delta.runbook == "table-schema-changed"

    lake.spark.sql(refused.fix.partition(";")[0])
    pipeline.run_incremental()
    assert len(lake.rows("bronze/orders")) == 1
