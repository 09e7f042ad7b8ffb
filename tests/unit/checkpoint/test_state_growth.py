"""State that only grows is told from what its snapshots hold."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.doctor.state_growth import TREND_BATCHES, StateTrend, read_trend
from tidemill.checkpoint.reading.state_folder import read_state_folder

MB = 2**20


@pytest.mark.parametrize(
    ("last_batch", "sizes", "grows"),
    [
        (TREND_BATCHES, (50 * MB, 80 * MB, 120 * MB), True),
        (TREND_BATCHES - 1, (50 * MB, 80 * MB, 120 * MB), False),
        (TREND_BATCHES, (80 * MB, 90 * MB, 120 * MB), False),
        (TREND_BATCHES, (50 * MB, 130 * MB, 120 * MB), False),
        (TREND_BATCHES, (1 * MB, 2 * MB, 4 * MB), False),
        (TREND_BATCHES, (0, 80 * MB, 120 * MB), True),
    ],
    ids=["grows", "too few batches", "not much", "fell again", "too small to matter", "from nothing"],
)
def test_what_counts_as_growth(last_batch: int, sizes: tuple[int, int, int], grows: bool) -> None:
    assert StateTrend(0, last_batch, sizes).only_grows is grows


def write_snapshot(partition: Path, version: int, size: int) -> None:
    """A RocksDB snapshot as Spark writes it: the zip names the data file, which stands beside it."""
    (partition / "SSTs").mkdir(parents=True, exist_ok=True)
    name = f"{version:06}-x.sst"
    with (partition / "SSTs" / name).open("wb") as data:
        data.truncate(size)
    described = {"sstFiles": [{"localSstName": "1.sst", "dfsSstFileName": name, "sizeBytes": size}]}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(described))
    (partition / f"{version}.zip").write_bytes(content.getvalue())


def test_the_sizes_of_all_partitions_are_added_at_the_first_the_middle_and_the_last_snapshot(
    tmp_path: Path,
) -> None:
    clinic = Clinic(ConfProject(tmp_path))
    checkpoint = clinic.healthy()
    for partition in ("state/0/0", "state/0/1"):
        for place, version in enumerate(range(10, 70, 10), 1):
            write_snapshot(checkpoint / partition, version, place * 10 * MB)
    layout = clinic.project.load().layout
    trend = read_trend(clinic.store, read_state_folder(clinic.store, layout, "orders"))
    assert trend is not None
    assert (trend.first_batch, trend.last_batch) == (10, 60)
    assert [round(size / MB) for size in trend.sizes] == [20, 80, 120]
    assert clinic.finding("TIDE-CKPT-055").severity == "warning"


def test_a_checkpoint_without_state_has_no_trend(tmp_path: Path) -> None:
    clinic = Clinic(ConfProject(tmp_path))
    clinic.healthy()
    assert (
        read_trend(clinic.store, read_state_folder(clinic.store, clinic.project.load().layout, "orders"))
        is None
    )
