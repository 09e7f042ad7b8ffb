"""State that only grows: found by the doctor on real snapshots, and bounded as its page says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import acknowledge
from tidemill.checkpoint.doctor import state_growth

START = datetime(2026, 1, 1, tzinfo=UTC)
CODE = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.groupBy(F.window("at", "10 minutes"), "id").count().select("window.start", "id", "count")
"""
ROWS, BATCHES = 1_000, 8
GROWS = "TIDE-CKPT-055"
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."


@pytest.fixture
def snapshots(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write a snapshot with each batch, and find trends in few batches and kilobytes, to save hours."""
    monkeypatch.setattr(state_growth, "TREND_BATCHES", BATCHES - 2)
    monkeypatch.setattr(state_growth, "WORTH_A_WORD", 1_000)
    spark.conf.set(f"{ROCKSDB}changelogCheckpointing.enabled", "false")
    spark.conf.set(f"{ROCKSDB}compactOnCommit", "true")
    yield
    spark.conf.unset(f"{ROCKSDB}compactOnCommit")
    spark.conf.set(f"{ROCKSDB}changelogCheckpointing.enabled", "true")


def orders(lake: Lake, watermark: str) -> LakePipeline:
    files = {"path": "landing/orders", "format": "json", "schema": "id string, at timestamp"}
    return lake.pipeline(
        "orders",
        source={"files": {**files, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": watermark},
        transform=lake.transform("orders", CODE),
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )


def land_hours(lake: Lake, first: int) -> None:
    """Write one file per hour, each a batch. Each key comes twice in its file, and never again."""
    for hour in range(first, first + BATCHES):
        keys = random.Random(hour)
        at = (START + timedelta(hours=hour)).isoformat()
        rows = [{"id": f"{keys.getrandbits(128):032x}", "at": at} for _ in range(ROWS)]
        lake.land_rows(f"landing/orders/{hour:03}.json", rows * 2)


@pytest.mark.soak
@pytest.mark.usefixtures("snapshots")
def test_state_that_only_grows_is_found_and_no_more_once_its_watermark_is_shorter(lake: Lake) -> None:
    pipeline = orders(lake, "1000 days")
    land_hours(lake, 0)
    grown = pipeline.run_incremental()
    finding = pipeline.findings_after(grown)[GROWS]
    assert (finding.severity, finding.runbook) == ("warning", "checkpoint-doctor")
    state = pipeline.measured_by(grown).state
    assert state is not None
    assert state.rows == BATCHES * ROWS

    pipeline = orders(lake, "10 minutes")
    acknowledge(pipeline)
    land_hours(lake, BATCHES)
    bounded = pipeline.run_incremental()
    assert GROWS not in pipeline.findings_after(bounded)
    state = pipeline.measured_by(bounded).state
    assert state is not None
    # The newest hour is open.
    assert state.rows == ROWS
    closed = lake.rows("silver/orders")
    assert {row["count"] for row in closed} == {2}
    assert len({row["id"] for row in closed}) == len(closed) == (2 * BATCHES - 1) * ROWS
