"""State that Spark wrote, as the golden checkpoints hold it: all formats, whole and damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.golden_lakes import STORED, unpack
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.state_inventory import Chain
from tidemill.storage.store import Store

STATEFUL = ("windowed", "join", "dedup", "windowed_format_1", "windowed_hdfs")
CASES = [(release.name, name) for release in sorted(STORED.iterdir()) for name in STATEFUL]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[1]}-{case[0]}")
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    release, name = request.param
    return unpack(name, release, tmp_path)


def reader(checkpoint: Path) -> CheckpointReader:
    """Return a new reader, because each reader reads only once."""
    return CheckpointReader(Store(str(checkpoint.parent)), str(checkpoint))


def next_version(checkpoint: Path) -> int:
    return max(reader(checkpoint).commit_ids) + 1


def files_read(checkpoint: Path) -> list[Path]:
    """State files from which Spark would load the next batch's state."""
    look = reader(checkpoint)
    version = next_version(checkpoint)
    chains = (look.state.chain(key, version, look.commits) for key in look.state.keys)
    return [Path(held.file.path) for chain in chains if isinstance(chain, Chain) for held in chain.files]


def test_every_version_that_spark_wrote_can_be_loaded(checkpoint: Path) -> None:
    look = reader(checkpoint)
    versions = list(range(1, next_version(checkpoint) + 1))
    assert list(look.state.loadable_versions(look.commits)) == versions[::-1]
    assert [look.state_problems(version) for version in versions] == [[] for _ in versions]
    assert look.state_problems(versions[-1] + 1)


def test_every_operator_is_described(checkpoint: Path) -> None:
    look = reader(checkpoint)
    assert [operator.keys for operator in look.operators] == [look.state.keys]


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("damage", [Path.unlink, empty, cut, cut_in_half])
def test_damage_to_any_file_that_spark_would_read_is_found(
    checkpoint: Path, damage: Callable[[Path], None]
) -> None:
    version = next_version(checkpoint)
    files = files_read(checkpoint)
    assert files
    for file in files:
        if damage is Path.unlink and is_made_up_for(file):
            continue
        content = file.read_bytes()
        damage(file)
        assert reader(checkpoint).state_problems(version), file
        file.write_bytes(content)
    assert reader(checkpoint).state_problems(version) == []


def is_made_up_for(file: Path) -> bool:
    """Return True if Spark can use an older snapshot and more changes instead, as in state format 1."""
    return file.suffix in (".zip", ".snapshot") and "_" not in file.name


def test_a_lost_snapshot_is_not_made_up_for_by_an_older_one_where_the_lineage_begins_with_it(
    tmp_path: Path,
) -> None:
    checkpoint = unpack("windowed", sorted(STORED.iterdir())[0].name, tmp_path)
    lost = [file for file in files_read(checkpoint) if file.suffix == ".zip"]
    assert lost
    for file in lost:
        file.unlink()
    problems = reader(checkpoint).state_problems(next_version(checkpoint))
    assert len(problems) == len(lost)
