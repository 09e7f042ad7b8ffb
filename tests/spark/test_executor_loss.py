"""An executor that dies in the middle of a batch. Spark runs its tasks again; no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.executors import KILLING_TRANSFORM, drivers_with_executors
from tests.support.lake import Lake

FILES = 8
ROWS = 50
# A row of the second batch of files, in the middle of its file.
VICTIM = 5 * ROWS + ROWS // 2

# Seconds for a driver with executors to run two batches; about 40 on two busy cores.
RUN_SECONDS = 240.0


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """Files with ids 0, 1, 2, …; the minute of each row is its file's number."""
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = [{"id": i, "at": f"2024-01-01T00:{number:02}:00Z", "key": i % 7} for i in ids]
        lake.land_rows(f"landing/orders/{number}.json", rows)
    return lake


def run_with_a_murder(lake: Lake, result: str, **declaration: Any) -> None:
    """Run all files in two batches; an executor is killed in the second."""
    crime = lake.folder / "crime"
    lake.transform("orders", KILLING_TRANSFORM.format(crime=str(crime), victim=VICTIM, result=result))
    files = {
        "path": "landing/orders",
        "format": "json",
        "schema": "id long, at timestamp, key long",
        "max_files_per_batch": FILES // 2,
    }
    lake.pipeline(
        "orders",
        source={"files": files},
        transform="orders:transform",
        run={"mode": "incremental"},
        **declaration,
    )
    with drivers_with_executors(lake.folder) as drivers:
        driver = drivers.start("orders", "incremental")
        assert driver.wait(RUN_SECONDS) == 0, driver.output[-3000:]
        assert "Lost executor" in driver.output
    assert crime.exists()


@pytest.mark.soak
def test_state_is_counted_once(landed: Lake) -> None:
    counts = "passed.withWatermark('at', '1 hour').groupBy('key').count()"
    sink = {"delta": {"table": "gold/counts", "mode": "replace"}}
    run_with_a_murder(landed, counts, sinks=[sink])
    expected = Counter(i % 7 for i in range(FILES * ROWS))
    assert {row["key"]: row["count"] for row in landed.rows("gold/counts")} == expected


@pytest.mark.soak
def test_each_row_is_once_in_both_tables_whoever_writes_them(landed: Lake) -> None:
    """State too: a task that met what its own first try has kept would drop its rows as repeated."""
    sinks = [
        {"delta": {"table": "bronze/orders", "writer": "arrow"}},
        {"delta": {"table": "silver/orders", "writer": "spark"}},
    ]
    once = "passed.withWatermark('at', '1 hour').dropDuplicates(['id', 'at'])"
    run_with_a_murder(landed, once, sinks=sinks)
    for table in ("bronze/orders", "silver/orders"):
        assert sorted(row["id"] for row in landed.rows(table)) == list(range(FILES * ROWS))
        # The last has no records: the watermark has moved, and state behind it goes.
        assert [c.entry.batch_id for c in landed.ledger(table) if c.entry] == [2, 1, 0]
