"""Spark reads a table after maintenance: types, and a stream of the table at the same time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.support.small_files import SmallFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(38, 9)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))),
        ("by_name", pa.map_(pa.string(), pa.int32())),
    ]
)
FILES = 20


def row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": None if number % 3 == 0 else f"näme {number}",
        "at": dt.datetime(2026, 3, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number),
        "day": dt.date(1969, 12, 31) + dt.timedelta(days=number),
        "price": Decimal(f"12345678901234567890.{number:09}"),
        "raw": bytes([number, 0, 255]),
        "tags": [{"key": None, "value": -0.0}, {"key": "k", "value": float("inf")}][: number % 3],
        "by_name": [("a", number)] if number % 2 else None,
    }


def test_spark_reads_the_same_rows_and_a_stream_of_the_table_none_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = SmallFiles(tmp_path)
    orders.declare("orders", "{kafka: {topic: orders}}", "bronze/rich")
    path = orders.layout.table("bronze/rich")
    for number in range(FILES):
        write_deltalake(path, pa.Table.from_pylist([row(number)], schema=COLUMNS), mode="append")
    before = spark.read.format("delta").load(path).orderBy("id").collect()

    def read_new() -> list[int]:
        found: list[int] = []

        def keep(rows: DataFrame, _: int) -> None:
            found.extend(record.id for record in rows.select("id").collect())

        stream = spark.readStream.format("delta").load(path).writeStream.foreachBatch(keep)
        stream.option("checkpointLocation", str(tmp_path / "c")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted(found)

    assert read_new() == list(range(FILES))
    report = orders.maintain(table="bronze/rich")
    assert report.done[0] == "small files: 20 put together into 1"
    assert len(DeltaTable(path).file_uris()) == 1
    assert spark.read.format("delta").load(path).orderBy("id").collect() == before
    write_deltalake(path, pa.Table.from_pylist([row(FILES)], schema=COLUMNS), mode="append")
    assert read_new() == [FILES]
