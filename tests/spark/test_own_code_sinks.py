"""Sinks that hand rows to code of the project, and the table in memory: what a crash makes of each."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.errors import DataError

# The pattern of spark_apps/tidemill/sinks/README.md: rows and token in one transaction.
CODE = """
import sqlite3
import uuid
from pathlib import Path

FOLDER = Path({folder!r})


def upsert(rows, token):
    connection = sqlite3.connect(FOLDER / "orders.db")
    try:
        with token.once(connection) as is_new:
            if is_new:
                connection.execute("CREATE TABLE IF NOT EXISTS orders (id bigint, batch bigint)")
                values = [(row["id"], token.batch_id) for row in rows.collect()]
                connection.executemany("INSERT INTO orders VALUES (?, ?)", values)
    finally:
        connection.close()


class Lines:
    def open(self, partition_id, batch_id):
        self.batch_id = batch_id
        return True

    def process(self, row):
        (FOLDER / f"{{self.batch_id}}-{{row['id']}}-{{uuid.uuid4()}}").touch()
"""


@pytest.fixture
def orders(lake: Lake) -> LakePipeline:
    """Return a pipeline with two batches to read, whose sinks are declared in another order than written."""
    for number in (1, 2):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number}])
    out = lake.folder / "out"
    out.mkdir()
    lake.transform("writers", CODE.format(folder=str(out)))
    return pipeline_of(
        lake,
        [
            {"foreach": {"writer": "writers:Lines"}},
            {"foreach_batch": {"function": "writers:upsert"}},
            {"memory": {"name": "orders"}},
            {"delta": {"table": "bronze/orders"}},
        ],
    )


def pipeline_of(lake: Lake, sinks: list[dict[str, Any]], **run: Any) -> LakePipeline:
    folder = {"path": "landing/orders", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    return lake.pipeline("orders", source={"files": folder}, sinks=sinks, run={"mode": "incremental", **run})


def crash_at(step: str, batch: int) -> Any:
    seen = iter(range(100))

    def crash(done: str) -> None:
        if done == step and next(seen) == batch:
            raise CrashedError(done)

    return crash


def test_code_of_ones_own_gets_a_repeated_batch_again_and_its_token_keeps_the_rows_single(
    lake: Lake, orders: LakePipeline
) -> None:
    with pytest.raises(CrashedError):
        orders.run_incremental(crash_at("function_called", 1))
    # Tables come first, and memory was not reached.
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2]
    assert in_memory(lake) == [1]
    repeated = orders.run_incremental()
    assert in_database(lake) == [(1, 0), (2, 1)]
    # The table has the batch; the others were given it again.
    assert repeated.status.rows_by_output == {
        "bronze/orders": 0,
        "foreach:writers:Lines": 1,
        "foreach_batch:writers:upsert": 1,
        "memory:orders": 1,
    }
    handed_over = sorted(file.name[:3] for file in (lake.folder / "out").glob("*-*"))
    assert handed_over == ["0-1", "1-2", "1-2"]
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [1, 2]
    # The memory of the first driver is lost.
    assert in_memory(lake) == [2]


def test_once_takes_all_that_is_there_in_one_batch_and_memory_that_is_full_stops_it(
    lake: Lake, orders: LakePipeline
) -> None:
    sinks = [{"delta": {"table": "bronze/orders"}}, {"memory": {"name": "orders", "max_rows": 1}}]
    once = pipeline_of(lake, sinks, trigger="once")
    with pytest.raises(DataError) as full:
        once.run_incremental()
    assert full.value.error_id == "TIDE-SINK-013"
    assert (full.value.facts["table"], full.value.facts["max_rows"]) == ("orders", 1)
    # One file a batch is the limit of the source, which `once` does not know.
    entries = [commit.entry for commit in lake.ledger("bronze/orders") if commit.entry]
    assert [(entry.batch_id, entry.rows) for entry in entries] == [(0, 2)]


def test_each_sink_counts_the_rows_that_it_was_given(lake: Lake, orders: LakePipeline) -> None:
    lake.land_rows("landing/orders/3.json", [{"id": number} for number in range(10, 20)])
    kinds = ("json", "parquet", "csv", "orc")
    files = [{"files": {"path": f"exports/{kind}", "format": kind, "where": "id > 1"}} for kind in kinds]
    own = [
        {"foreach": {"writer": "writers:Lines", "where": "id < 15"}},
        {"foreach_batch": {"function": "writers:upsert"}},
    ]
    reporter = pipeline_of(lake, [*files, *own]).run_incremental()
    assert reporter.status.rows_by_output == {
        **{f"files:exports/{kind}": 11 for kind in kinds},
        "foreach:writers:Lines": 7,
        "foreach_batch:writers:upsert": 12,
    }
    (last,) = [sink for sink in reporter.query.report.sinks if sink.name == "files:exports/csv"]
    assert (last.rows, last.total_rows) == (10, 11)


def test_files_of_an_aggregate_are_counted_after_its_shuffle(lake: Lake, orders: LakePipeline) -> None:
    (lake.folder / "spark_apps/transforms/counted.sql").write_text(
        "SELECT id, count(*) AS n FROM result GROUP BY id"
    )
    lake.land_rows("landing/orders/1.json", [{"id": number % 3} for number in range(30)])
    sink = {"path": "exports/orders", "format": "parquet", "transform": "counted.sql", "partition_by": ["id"]}
    reporter = pipeline_of(lake, [{"files": sink}]).run_incremental()
    assert reporter.status.rows_by_output == {"files:exports/orders": 4}


def in_memory(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.spark.table("orders").collect())


def in_database(lake: Lake) -> list[tuple[int, int]]:
    connection = sqlite3.connect(lake.folder / "out" / "orders.db")
    try:
        return list(connection.execute("SELECT id, batch FROM orders ORDER BY id"))
    finally:
        connection.close()
