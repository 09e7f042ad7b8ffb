"""A sink that takes most of each batch: measured by the engine, found by the doctor, until it is fast."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake, LakePipeline
from tidemill.checkpoint.doctor.measured import LEAST_BATCHES

# A database that lacks an index takes three times as long as all else of a batch, however busy the machine.
DATABASE = """
import time
from pathlib import Path

INDEXED = Path({indexed!r})
ended = []


def upsert(rows, token):
    values = rows.collect()
    if not INDEXED.exists():
        beside = time.monotonic() - ended[-1] if ended else 0.3
        time.sleep(3 * beside)
    ended.append(time.monotonic())
"""
# Minimum number of batches for a typical value.
BATCHES = LEAST_BATCHES
SLOW = "TIDE-TUNE-011"
SINK = "foreach_batch:database:upsert"


def land_batches(lake: Lake, first: int) -> None:
    for number in range(first, first + BATCHES):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number}])


def orders(lake: Lake) -> LakePipeline:
    """Return a pipeline in which each file is a batch, and each batch takes longer than the trigger."""
    folder = {"path": "landing/orders", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    sinks = [{"delta": {"table": "bronze/orders"}}, {"foreach_batch": {"function": "database:upsert"}}]
    return lake.pipeline("orders", source={"files": folder}, sinks=sinks, run={"trigger": "10 milliseconds"})


@pytest.mark.soak
def test_a_slow_sink_is_found_by_its_time_and_no_more_once_it_is_fast(lake: Lake) -> None:
    indexed = lake.folder / "indexed"
    lake.transform("database", DATABASE.format(indexed=str(indexed)))
    pipeline = orders(lake)
    land_batches(lake, 0)
    finding = pipeline.findings_after(pipeline.run_incremental())[SLOW]
    assert (finding.severity, finding.runbook) == ("warning", "slow-sink")
    assert (finding.facts["sink"], finding.facts["with_reading"]) == (SINK, "no")

    indexed.touch()
    land_batches(lake, BATCHES)
    reporter = pipeline.run_incremental()
    assert SLOW not in pipeline.findings_after(reporter)
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == list(range(2 * BATCHES))
    # The table's sink reads the rows, so its own time cannot be separated from reading.
    assert reporter.query.report is not None
    newest = reporter.query.report.sink_times
    read_by = [(times.batch_id, times.reader) for times in newest]
    assert read_by == [(batch_id, "bronze/orders") for batch_id in range(BATCHES, 2 * BATCHES)]
    assert {name for times in newest for name in times.milliseconds} == {"bronze/orders", SINK}
