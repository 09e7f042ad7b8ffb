"""A reader next to a stream sees all rows of a batch or none, and a query sees the newest rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tests.support.lake import Lake
from tidemill.ledger.table_query import run_query

BATCHES, ROWS = 3, 40
DELTA = "SELECT batch FROM bronze.orders"


class Reader:
    """Reads repeatedly in a thread, and counts the rows of each batch in each read."""

    def __init__(self, read: Callable[[], list[Any]]) -> None:
        self.seen: list[dict[Any, int]] = []
        self._read = read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failed: list[BaseException] = []

    def _run(self) -> None:
        try:
            # Pause between reads, to leave the stream some CPU time.
            while not self._stop.wait(0.05):
                self.look()
        except BaseException as error:  # noqa: BLE001  # raised again in the test's own thread
            self._failed.append(error)

    def look(self) -> None:
        self.seen.append(dict(Counter(self._read())))

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]


def test_a_reader_beside_a_stream_sees_whole_batches_only(lake: Lake) -> None:
    for number in range(BATCHES + 1):
        rows = [{"batch": number, "id": row, "day": f"2024-01-0{row % 2 + 1}"} for row in range(ROWS)]
        lake.land_rows(f"landing/orders/{number}.json", rows if number else rows[:1])
    schema = "batch long, id long, day date"
    files = {"path": "landing/orders", "format": "json", "schema": schema, "max_files_per_batch": 1}
    pipeline = lake.pipeline(
        "orders",
        source={"files": files},
        sinks=[
            {"delta": {"table": "bronze/orders"}},
            {"files": {"path": "exports/orders", "format": "parquet", "partition_by": ["day"]}},
        ],
        run={"mode": "incremental"},
    )
    layout, exports = pipeline.resolved.layout, str(lake.root / "exports/orders")
    table = Reader(lambda: [row["batch"] for row in run_query(layout, DELTA, 1000).rows])
    folder = Reader(lambda: [row[0] for row in lake.spark.read.parquet(exports).select("batch").collect()])
    readers: list[Reader] = []

    def between(step: str) -> None:
        # The first batch makes table and folder.
        if step == "files_named" and not readers:
            readers.extend(reader.__enter__() for reader in (table, folder))
        # Once at least where only one of the two has the batch, however slow the threads are.
        if step == "committed":
            for reader in readers:
                reader.look()

    try:
        pipeline.run_incremental(between)
    finally:
        for reader in readers:
            reader.__exit__()
    for reader in (table, folder):
        assert {count for counts in reader.seen for count in counts.values()} == {1, ROWS}
        assert all(counts[0] == 1 for counts in reader.seen)
        # It looked while batches were written, not only before and after.
        assert len({len(counts) for counts in reader.seen}) > 2


def test_a_reader_without_spark_never_meets_half_a_checkpoint(tmp_path: Path, spark: SparkSession) -> None:
    """Delta writes a checkpoint of the log after each batch here, and a file that names the newest."""
    path, batches = str(tmp_path / "table"), 8
    every = spark.range(1000).write.format("delta").option("delta.checkpointInterval", "1")
    every.save(path)
    stop, failed, looks = threading.Event(), [], Counter[int]()

    def read() -> None:
        while not stop.wait(0.01):
            try:
                looks[DeltaTable(path).version()] += 1
            except DeltaError as error:
                failed.append(str(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(batches):
        spark.range(10).write.format("delta").mode("append").save(path)
    stop.set()
    for reader in readers:
        reader.join()
    assert failed == []
    assert len(looks) > batches / 2
    assert len(list((tmp_path / "table/_delta_log").glob("*.checkpoint.parquet"))) == batches
