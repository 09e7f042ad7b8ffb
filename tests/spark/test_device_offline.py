"""State and timers of a pipeline's own: each silence is one row, over restarts, crashes and batches."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tests.support.lake import REPOSITORY, Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill import testing

START = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def device_offline(lake: Lake) -> LakePipeline:
    return lake.copy_pipeline("device_offline")


def send(lake: Lake, *readings: tuple[str, int]) -> None:
    """Readings: device and minute since the start."""
    rows = {
        "device_id": [device for device, _ in readings],
        "timestamp": [START + minute * MINUTE for _, minute in readings],
    }
    write_deltalake(str(lake.root / "tables/bronze/iot_events"), pa.table(rows), mode="append")


def silences(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Device and minute of its last reading."""
    return sorted((row["device_id"], (row["since"] - START) // MINUTE) for row in rows)


@pytest.mark.soak
def test_each_silence_is_a_row_however_readings_are_cut_into_batches(
    tidemill_spark: SparkSession, tmp_path: Path
) -> None:
    """Readings up to 9 minutes late, against a watermark of 10; each run is a restart."""
    chance = random.Random(11)
    readings = [(device, chance.randrange(300)) for device in "abc" for _ in range(20)]
    arrived = sorted(readings, key=lambda reading: reading[1] + chance.uniform(0, 9))
    run = testing.pipeline(REPOSITORY / "conf/pipelines/device_offline.yaml", tmp_path, tidemill_spark)
    for batch in [*(arrived[first : first + 20] for first in range(0, len(arrived), 20)), [("end", 400)]]:
        run.add_rows({"device_id": device, "timestamp": START + minute * MINUTE} for device, minute in batch)
        run.advance()
    expected = []
    for device in "abc":
        minutes = sorted(minute for name, minute in readings if name == device)
        expected += [(device, minute) for minute, then in pairwise([*minutes, 400]) if then - minute > 15]
    assert len(expected) > 10
    assert silences(run.table("silver/device_offline")) == sorted(set(expected))


@pytest.mark.parametrize("step", [pytest.param("files_written", marks=pytest.mark.soak), "committed"])
def test_a_timer_that_fires_in_a_batch_that_crashed_is_one_row(
    lake: Lake, device_offline: LakePipeline, step: str
) -> None:
    send(lake, ("a", 0), ("b", 0))
    device_offline.run_incremental()

    def crash(done: str) -> None:
        if done == step:
            raise CrashedError

    send(lake, ("a", 40))
    for _ in range(2):
        with pytest.raises(CrashedError):
            device_offline.run_incremental(crash)
    device_offline.run_incremental()
    device_offline.run_incremental()
    assert silences(lake.rows("silver/device_offline")) == [("a", 0), ("b", 0)]
