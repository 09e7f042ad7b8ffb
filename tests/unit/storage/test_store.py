"""Control files: whole, below the root, and of several creators one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.race import race
from tidemill.errors import DataError, InternalError
from tidemill.storage.store import Store

RACES = 50


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "root"))


def test_what_was_written_is_read(store: Store) -> None:
    path = f"{store.root}/state/orders/status.json"
    store.write_json(path, {"state": "running"})
    store.write_json(path, {"state": "stopped"})
    assert store.read_json(path) == {"state": "stopped"}


def test_nothing_is_read_where_nothing_is(store: Store) -> None:
    path = f"{store.root}/state/orders/status.json"
    assert (store.read(path), store.read_json(path), store.identity(path)) == (None, None, None)
    assert store.list_names(f"{store.root}/state") == []


def test_a_root_with_a_trailing_slash_is_the_same_root(store: Store) -> None:
    Store(store.root + "/").write_json(f"{store.root}/x.json", {"a": 1})
    assert store.read_json(f"{store.root}/x.json") == {"a": 1}


def test_only_the_first_creator_writes(store: Store) -> None:
    path = f"{store.root}/epochs/00000001.json"
    assert store.create_json(path, {"by": "first"})
    assert not store.create_json(path, {"by": "second"})
    assert store.read_json(path) == {"by": "first"}


def test_of_two_processes_that_create_the_same_object_one_wins(tmp_path: Path) -> None:
    won = race(partial(create, str(tmp_path)), RACES)
    for number in range(RACES):
        winner = "one" if won["one"][number] else "other"
        assert won["one"][number] != won["other"][number]
        assert Store(str(tmp_path)).read_json(f"{tmp_path}/{number}.json") == {"by": winner}


def create(root: str, number: int, name: str) -> bool:
    return Store(root).create_json(f"{root}/{number}.json", {"by": name})


def test_names_are_listed_in_order_files_and_folders_alike(store: Store) -> None:
    for name in ("b.json", "a.json", "folder/inner.json"):
        store.write_json(f"{store.root}/state/{name}", {})
    assert store.list_names(f"{store.root}/state") == ["a.json", "b.json", "folder"]


def test_a_replaced_object_has_another_identity(store: Store) -> None:
    path = f"{store.root}/x.json"
    store.write_json(path, {"a": 1})
    before = store.identity(path)
    assert store.identity(path) == before
    store.write_json(path, {"a": 1})
    assert store.identity(path) != before


@pytest.mark.parametrize("path", ["/etc/passwd", "{root}", "{root}-other/x", "{root}/a/../../x", "{root}/.."])
def test_a_path_out_of_the_root_is_refused(store: Store, path: str) -> None:
    with pytest.raises(InternalError) as refused:
        store.read(path.format(root=store.root))
    assert refused.value.error_id == "TIDE-STOR-002"
    assert refused.value.facts == {"root": store.root, "path": path.format(root=store.root)}


@pytest.mark.parametrize("content", [b"", b'{"state": "run', b"[1]", b'"text"', b"\xff\xfe"])
def test_a_damaged_control_file_is_named(store: Store, content: bytes) -> None:
    path = f"{store.root}/status.json"
    store.write_json(path, {})
    Path(path).write_bytes(content)
    with pytest.raises(DataError) as refused:
        store.read_json(path)
    assert (refused.value.error_id, refused.value.facts) == (
        "TIDE-STOR-001",
        {"file": path, "bytes": len(content)},
    )
