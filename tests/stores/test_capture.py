"""A Capture archive on Azure's Blob storage: found and indexed without Spark, read by its tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.capture_files import CaptureFolder, Event, capture_file
from tests.support.lake import Lake
from tests.support.stores import AZURITE, StorePlace
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.hub_archive import read_archive
from tidemill.capture.archive import Slice
from tidemill.sources.archived_events import read_archived

START = datetime(2026, 11, 5, tzinfo=UTC)


def events(*numbers: int) -> list[Event]:
    return [
        Event(
            number,
            START + timedelta(minutes=number),
            f"e{number}".encode(),
            system={"iothub-connection-device-id": f"d{number}"},
        )
        for number in numbers
    ]


@pytest.mark.parametrize("store_place", [AZURITE], indirect=True)
def test_an_archive_on_blob_storage_is_indexed_and_read_by_tasks(
    store_place: StorePlace, tmp_path: Path, spark: SparkSession
) -> None:
    lake = Lake(tmp_path / "lake", spark, environment=dict(store_place.keys))
    source = {
        "namespace": "plant-north",
        "hub": "readings",
        "auth": {"connection_string": "hub-connection"},
        "capture": {"path": "captured"},
    }
    pipeline = lake.pipeline(
        "readings", source={"iothub": source}, sinks=[{"delta": {"table": "bronze/readings"}}]
    ).resolved
    # Paths of files as the service writes them, an empty one too.
    paths = CaptureFolder(Path(), "plant-north", "readings")
    store = store_place.open()
    for partition, minutes, numbers in ((0, 0, (0, 1, 2)), (0, 5, ()), (0, 10, (2, 3)), (1, 0, (7,))):
        path = paths.path(partition, START + timedelta(minutes=minutes))
        store.write(f"{store_place.root}/captured/{path}", capture_file(events(*numbers)))

    archive = read_archive(pipeline, parse_bounds("2020-01-01", "2030-01-01"))

    assert archive is not None
    assert {number: [(run.first, run.end) for run in archive.runs(number)] for number in (0, 1)} == {
        0: [(0, 3), (2, 4)],
        1: [(7, 8)],
    }
    newest = archive.files[0][0].path
    assert newest == str(paths.path(0, START + timedelta(minutes=10)))
    slices = [Slice(path=newest, partition=0, first=3, end=4)]
    slices += [Slice(path=archive.files[1][0].path, partition=1, first=7, end=8)]
    rows = read_archived(spark, pipeline, slices).collect()
    assert sorted((row["kafka_offset"], row["kafka_value"]) for row in rows) == [(3, b"e3"), (7, b"e7")]
    assert {row["kafka_headers"][0]["value"] for row in rows} == {b"\xa1\x02d3", b"\xa1\x02d7"}
