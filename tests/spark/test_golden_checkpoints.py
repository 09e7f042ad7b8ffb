"""Checkpoints that a release left behind resume with the present engine, and give the rows they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import COMMITS, GOLDENS, READ, commit_readings
from tests.support.golden_lakes import STORED
from tests.support.lake import Lake

RELEASES = sorted(folder.name for folder in STORED.iterdir())
OWN = ("stateless", "windowed", "join", "dedup")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", OWN)
def test_a_stored_checkpoint_resumes(lake: Lake, release: str, name: str) -> None:
    golden = GOLDENS[name]
    golden.unpack(release, lake.root)
    commit_readings(lake, range(READ, COMMITS))
    golden.declare(lake).run_incremental()
    assert golden.rows(lake) == golden.expected_rows(release)


@pytest.mark.parametrize("release", RELEASES)
def test_a_stored_checkpoint_resumes_from_a_batch_that_was_written_and_not_committed(
    lake: Lake, release: str
) -> None:
    golden = GOLDENS["windowed"]
    uncommit_the_newest_batch(golden.unpack(release, lake.root))
    commit_readings(lake, range(READ, COMMITS))
    golden.declare(lake).run_incremental()
    assert golden.rows(lake) == golden.expected_rows(release)


def uncommit_the_newest_batch(checkpoint: Path) -> None:
    """Remove Spark's newest commit, as if the driver had been killed after the table's commit."""
    newest = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    (checkpoint / "commits" / str(newest)).unlink()
    (checkpoint / "commits" / f".{newest}.crc").unlink()
