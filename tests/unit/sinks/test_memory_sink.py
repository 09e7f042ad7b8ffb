"""The answer of a driver's port for a table in memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.names import NEWEST_BATCH
from tidemill.sinks.memory_sink import MemoryTable
from tidemill.spec.sinks import MemorySink

COLUMNS = pa.schema([("device", pa.string()), ("readings", pa.int64())])
# Spark says of a count that it is never null; the columns of a sink do not.
COUNTED = pa.schema([("device", pa.string()), pa.field("readings", pa.int64(), nullable=False)])


def batch(**counts: int) -> Any:
    frame = create_autospec(DataFrame, instance=True)
    rows = {"device": list(counts), "readings": list(counts.values())}
    frame.limit.return_value.toArrow.return_value = pa.table(rows, COUNTED)
    return frame


def answered(table: MemoryTable) -> tuple[list[dict[str, Any]], bytes]:
    rows = pa.ipc.open_stream(table.stream()).read_all()
    return rows.to_pylist(), rows.schema.metadata[NEWEST_BATCH]


@pytest.mark.parametrize(("is_whole", "left"), [(True, ["b"]), (False, ["a", "b"])])
def test_a_table_is_answered_with_its_newest_batch(is_whole: bool, left: list[str]) -> None:
    spark = create_autospec(SparkSession, instance=True)
    table = MemoryTable(spark, MemorySink(name="counts"), COLUMNS, is_whole=is_whole)
    assert answered(table) == ([], b"-1")
    table.put(batch(a=1), 3)
    assert answered(table) == ([{"device": "a", "readings": 1}], b"3")
    table.put(batch(b=2), 4)
    rows, newest = answered(table)
    assert ([row["device"] for row in rows], newest) == (left, b"4")
