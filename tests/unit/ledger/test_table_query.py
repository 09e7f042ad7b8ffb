"""Queries over tables, without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tidemill.ledger.table_query import run_query
from tidemill.names import Layout


def test_a_time_that_python_does_not_hold_is_a_text(tmp_path: Path) -> None:
    times = pa.array([0, 253_402_300_800_000_000], pa.int64()).view(pa.timestamp("us", "UTC"))
    write_deltalake(str(tmp_path / "tables/silver/orders"), pa.table({"id": [1, 2], "at": times}))
    result = run_query(Layout(str(tmp_path)), "SELECT id, at FROM silver.orders WHERE id = 2", 10)
    assert result.rows == [{"id": 2, "at": "+10000-01-01T00:00:00.000000Z"}]
