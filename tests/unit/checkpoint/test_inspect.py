"""Inspecting a checkpoint: what it says, whole and damaged. It never writes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.checkpoints import write_checkpoint, write_planned
from tests.support.declared import declared
from tests.support.large_checkpoint import LargeCheckpoint
from tidemill.checkpoint.current import Current
from tidemill.checkpoint.inspect import Inspection, SourceReport, inspect_checkpoint
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

RECORD = Current(pipeline="orders", generation="g0001", why="first start")
SMALL = LargeCheckpoint(batches=13, partitions=2)
NEWEST = 1012


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(declared(tmp_path).layout.checkpoint("orders", "g0001"))


@pytest.fixture
def look(tmp_path: Path, folder: Path) -> Callable[[], Inspection]:
    return lambda: look_at(declared(tmp_path))


def look_at(pipeline: Pipeline) -> Inspection:
    return inspect_checkpoint(Store(pipeline.layout.root), pipeline, "g0001", RECORD, RECORD)


def content_of(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_checkpoint_that_was_never_started_says_so(look: Callable[[], Inspection]) -> None:
    found = look()
    assert (found.query_id, found.planned, found.committed, found.repeats) == (None, None, None, None)
    assert (found.sources, found.operators, found.files, found.newest_file) == ((), (), 0, None)
    assert found.damages == ()


def test_a_stateless_checkpoint_tells_batch_offsets_and_age(
    folder: Path, look: Callable[[], Inspection]
) -> None:
    write_checkpoint(folder, planned=range(3, 6), committed=range(3, 6))
    found = look()
    assert (found.pipeline, found.generation, found.is_live, found.query_id) == (
        "orders",
        "g0001",
        True,
        "2f1c",
    )
    assert (found.oldest_planned, found.planned, found.committed, found.repeats) == (3, 5, 5, None)
    assert found.sources == (SourceReport("0", {"orders": {"0": 0}}, {"orders": {"0": 60}}),)
    assert found.planned_at == datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    assert found.files == 8
    assert found.damages == ()


def test_a_batch_that_was_planned_and_not_committed_is_repeated(
    folder: Path, look: Callable[[], Inspection]
) -> None:
    write_checkpoint(folder, planned=range(6), committed=range(5))
    found = look()
    assert (found.planned, found.committed, found.repeats, found.damages) == (5, 4, 5, ())


def test_a_crash_in_the_very_first_batch_is_no_damage(folder: Path, look: Callable[[], Inspection]) -> None:
    write_checkpoint(folder, planned=[0], committed=[])
    found = look()
    assert (found.repeats, found.damages) == (0, ())


def test_state_is_told_by_operator(folder: Path, look: Callable[[], Inspection]) -> None:
    files = SMALL.write(folder)
    found = look()
    assert [(state.number, state.name, state.partitions) for state in found.operators] == [
        (0, "stateStoreSave", 2),
        (1, "dedupe", 2),
    ]
    assert {(state.oldest, state.newest) for state in found.operators} == {(1001, 1013)}
    assert (found.files, found.committed, found.damages) == (files, NEWEST, ())
    assert found.conf["spark.sql.shuffle.partitions"] == "10"
    assert found.watermark == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_after_a_repartition_the_newest_commit_counts_the_partitions(
    folder: Path, look: Callable[[], Inspection]
) -> None:
    LargeCheckpoint(batches=3, partitions=4).write(folder)
    description = folder / "state/0/_metadata/metadata"
    stale = json.loads(description.read_text().splitlines()[1])
    stale["stateStoreInfo"][0]["numPartitions"] = 2
    description.write_text("v1\n" + json.dumps(stale))
    assert [operator.partitions for operator in look().operators] == [4, 4]


def lose(name: str) -> Callable[[Path], None]:
    return lambda folder: next(folder.glob(name)).unlink()


def lose_folder(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / name)


def empty(name: str) -> Callable[[Path], None]:
    return lambda folder: next(folder.glob(name)).write_bytes(b"")


def cut(name: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        file = next(folder.glob(name))
        file.write_bytes(file.read_bytes()[:-1])

    return act


@pytest.mark.parametrize(
    "damage",
    [
        lose("metadata"),
        empty("metadata"),
        cut("metadata"),
        lose(f"offsets/{NEWEST}"),
        lose(f"offsets/{NEWEST - 1}"),
        empty(f"offsets/{NEWEST}"),
        cut(f"offsets/{NEWEST}"),
        empty(f"offsets/{NEWEST - 3}"),
        lose(f"commits/{NEWEST - 1}"),
        empty(f"commits/{NEWEST}"),
        cut(f"commits/{NEWEST}"),
        lose_folder("offsets"),
        lose_folder("commits"),
        lose_folder("state"),
        lose_folder("state/1"),
        lose_folder("state/1/1"),
        lose_folder("state/0/0/SSTs"),
        lose(f"state/0/1/{NEWEST + 1}_*.changelog"),
        empty(f"state/0/1/{NEWEST + 1}_*.changelog"),
        cut(f"state/0/1/{NEWEST + 1}_*.changelog"),
        lose("state/1/0/1012_*.changelog"),
        empty("state/1/0/1011_*.zip"),
        cut("state/1/0/1011_*.zip"),
        cut("state/1/0/SSTs/001011-*.sst"),
    ],
)
def test_damage_is_found(
    folder: Path, look: Callable[[], Inspection], damage: Callable[[Path], None]
) -> None:
    SMALL.write(folder)
    damage(folder)
    assert look().damages


def test_damage_of_state_that_no_start_reads_is_left_alone(
    folder: Path, look: Callable[[], Inspection]
) -> None:
    SMALL.write(folder)
    cut("state/0/1/1003_*.changelog")(folder)
    lose("state/1/0/1001_*.zip")(folder)
    assert look().damages == ()


def test_of_lost_state_the_newest_that_can_be_loaded_is_told(
    folder: Path, look: Callable[[], Inspection]
) -> None:
    SMALL.write(folder)
    assert look().loadable is None
    lose("state/0/1/1009_*.changelog")(folder)
    assert look().loadable is None, "a newer snapshot makes up for it"
    cut("state/1/1/1013_*.changelog")(folder)
    assert look().loadable == 1012
    for file in folder.glob("state/*/*/1011_*.zip"):
        file.unlink()
    assert look().loadable == 1008


def test_what_a_crash_leaves_is_no_damage(folder: Path, look: Callable[[], Inspection]) -> None:
    SMALL.write(folder)
    lose(f"commits/{NEWEST}")(folder)
    lose(f"commits/.{NEWEST}.crc")(folder)
    (folder / "offsets" / f".{NEWEST + 1}.9c1f.tmp").write_bytes(b"v1")
    found = look()
    assert (found.damages, found.repeats) == ((), NEWEST)


def test_a_torn_file_hides_nothing_else(folder: Path, look: Callable[[], Inspection]) -> None:
    SMALL.write(folder)
    cut(f"offsets/{NEWEST}")(folder)
    lose_folder("state/1/1")(folder)
    found = look()
    assert len(found.damages) == 2
    assert (found.planned, found.committed, found.sources) == (NEWEST, NEWEST, ())


def test_many_damages_of_a_kind_are_counted(folder: Path, look: Callable[[], Inspection]) -> None:
    LargeCheckpoint(batches=13, partitions=30).write(folder)
    lose_folder("state/0/0")(folder)
    for partition in range(1, 30):
        lose_folder(f"state/0/{partition}")(folder)
    (damage,) = look().damages
    assert re.search(r"TIDE-CKPT-016 .* more=\d\d", damage)


def test_looking_changes_nothing(folder: Path, look: Callable[[], Inspection]) -> None:
    SMALL.write(folder)
    cut(f"offsets/{NEWEST}")(folder)
    before = content_of(folder)
    look()
    assert content_of(folder) == before


def test_sources_without_data_have_no_end(folder: Path, look: Callable[[], Inspection]) -> None:
    write_checkpoint(folder, planned=[], committed=[])
    write_planned(folder, 0, {"orders": {"0": 5}}, None)
    assert look().sources == (
        SourceReport("0", {"orders": {"0": 0}}, {"orders": {"0": 5}}),
        SourceReport("1", None, None),
    )


def test_a_checkpoint_is_the_same_on_every_store(tmp_path: Path, store_root: str) -> None:
    pipeline = declared(tmp_path, environment={"root": store_root})
    store, path = Store(store_root), pipeline.layout.checkpoint("orders", "g0001")
    files = LargeCheckpoint(batches=4, partitions=1).files()
    for name, content in files.items():
        store.write(f"{path}/{name}", content)
    whole = look_at(pipeline)
    assert (whole.files, whole.committed, whole.damages) == (len(files), 1003, ())
    newest = next(name for name in files if name.startswith("state/0/0/1004_") and name.endswith("changelog"))
    store.write(f"{path}/{newest}", files[newest][:-1])
    assert len(look_at(pipeline).damages) == 1
