"""A batch that a crash left half written is finished by the code that began it, or not at all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import acknowledge
from tests.support.writer_cases import CrashedError
from tidemill.errors import GateRefusedError
from tidemill.sinks.batch_commit import StepDone

PLAIN = """
def transform(orders):
    return orders.where("price < {limit}")
"""
WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    windows = orders.where("price < {limit}").groupBy(F.window("at", "5 minutes")).count()
    return windows.select(F.col("window.start").alias("window_start"), "count")
"""


def crash_after(step: str, number: int) -> StepDone:
    seen = itertools.count(1)

    def crash(done: str) -> None:
        if done == step and next(seen) == number:
            raise CrashedError(done)

    return crash


def land(lake: Lake, number: int) -> None:
    rows = [
        {"id": 10 * number + n, "at": f"2024-01-01T0{number}:00:00Z", "price": 10.0 * n} for n in range(3)
    ]
    lake.land_rows(f"landing/orders/{number}.json", rows)


def orders(lake: Lake, code: str, *sinks: dict[str, Any]) -> LakePipeline:
    schema = "id long, at timestamp, price double"
    return lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": schema}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("orders", code.format(limit=100)),
        sinks=[{"delta": sink} for sink in sinks],
        run={"mode": "incremental"},
    )


def refusal(pipeline: LakePipeline) -> dict[str, Any]:
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert refused.value.error_id == "TIDE-SINK-007"
    return refused.value.facts


def test_other_code_does_not_write_the_second_table_of_a_batch_of_which_the_first_is_written(
    lake: Lake,
) -> None:
    land(lake, 1)
    tables = ({"table": "bronze/orders"}, {"table": "silver/orders", "writer": "spark"})
    pipeline = orders(lake, PLAIN, *tables)
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_after("committed", 1))
    lake.transform("orders", PLAIN.format(limit=15))
    facts = refusal(pipeline)
    assert (facts["written"], facts["left"]) == (["bronze/orders"], ["silver/orders"])
    assert facts["began_with"] != facts["this_code"]
    assert lake.data_files("silver/orders") == []

    lake.transform("orders", PLAIN.format(limit=100))
    pipeline.run_incremental()
    lake.transform("orders", PLAIN.format(limit=15))
    land(lake, 2)
    pipeline.run_incremental()
    for table in ("bronze/orders", "silver/orders"):
        assert sorted(row["id"] for row in lake.rows(table)) == [10, 11, 12, 20, 21]


def test_other_code_goes_on_after_a_batch_that_is_written_as_a_whole(lake: Lake) -> None:
    land(lake, 1)
    pipeline = orders(lake, PLAIN, {"table": "bronze/orders"})
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_after("committed", 1))
    lake.transform("orders", PLAIN.format(limit=15))
    land(lake, 2)
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [10, 11, 12, 20, 21]


@pytest.mark.soak
def test_other_code_does_not_compute_the_state_of_a_batch_whose_table_is_written(lake: Lake) -> None:
    """The table would hold what the old code made of the batch, and the state what the new one does."""
    land(lake, 1)
    pipeline = orders(lake, WINDOWS, {"table": "silver/orders"})
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_after("committed", 1))
    lake.transform("orders", WINDOWS.format(limit=15))
    acknowledge(pipeline)
    facts = refusal(pipeline)
    assert (facts["written"], facts["left"]) == (["silver/orders"], ["state"])

    lake.transform("orders", WINDOWS.format(limit=100))
    pipeline.run_incremental()
    assert [(row["window_start"].hour, row["count"]) for row in lake.rows("silver/orders")] == []
    land(lake, 2)
    pipeline.run_incremental()
    assert [(row["window_start"].hour, row["count"]) for row in lake.rows("silver/orders")] == [(1, 3)]
