"""Where a new checkpoint begins to read a table."""

from __future__ import annotations

import os

import pyarrow as pa
from deltalake import write_deltalake

from tests.support.lake import Lake

# 2026-01-01T00:00:00Z, in seconds.
FIRST_COMMIT = 1_767_225_600


def test_a_table_is_read_from_the_first_commit_of_a_moment_on_and_then_goes_on(lake: Lake) -> None:
    table = lake.root / "tables/bronze/raw"

    def append(number: int) -> None:
        write_deltalake(str(table), pa.table({"id": [number]}), mode="append")
        committed_at = FIRST_COMMIT + 3600 * number
        os.utime(table / f"_delta_log/{number:020}.json", (committed_at, committed_at))

    for number in range(3):
        append(number)
    pipeline = lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw", "starting_at": "2026-01-01T00:30:00Z"}},
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]
    append(3)
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2, 3]
