"""The store's promises, on every store."""

from __future__ import annotations

import pytest

from tests.support.claims import assert_one_winner_each
from tests.support.stores import StorePlace
from tidemill.errors import InternalError
from tidemill.storage.store import Store

# Claims by two processes for the same objects; the soak has 2,000.
CLAIMS = 500


def test_of_two_processes_that_create_the_same_object_one_wins(store_place: StorePlace) -> None:
    assert_one_winner_each(store_place, CLAIMS)


def test_what_was_written_is_read_and_replaced_as_a_whole(placed_store: Store) -> None:
    path = f"{placed_store.root}/state/orders/status.json"
    assert (placed_store.read(path), placed_store.read_json(path), placed_store.identity(path)) == (None,) * 3
    placed_store.write_json(path, {"state": "running"})
    before = placed_store.identity(path)
    assert placed_store.identity(path) == before
    placed_store.write_json(path, {"state": "stopped"})
    assert placed_store.identity(path) != before
    assert placed_store.read_json(path) == {"state": "stopped"}


def test_names_are_listed_in_order_files_and_folders_alike(placed_store: Store) -> None:
    folder = f"{placed_store.root}/state"
    assert placed_store.list_names(folder) == []
    for name in ("b.json", "a.json", "folder/inner.json", ".hidden"):
        placed_store.write_json(f"{folder}/{name}", {})
    placed_store.write_json(f"{folder}-other/c.json", {})
    assert placed_store.list_names(folder) == [".hidden", "a.json", "b.json", "folder"]


def test_all_files_are_listed_with_their_sizes(placed_store: Store) -> None:
    folder = f"{placed_store.root}/state"
    placed_store.write(f"{folder}/orders/offsets/1", b"12345")
    placed_store.write(f"{folder}/orders/.hidden", b"")
    placed_store.write(f"{folder}-other/1", b"1")
    files = placed_store.list_files(folder)
    assert [(file.path, file.size) for file in files] == [
        (f"{folder}/orders/.hidden", 0),
        (f"{folder}/orders/offsets/1", 5),
    ]
    assert all(file.modified.tzinfo is not None for file in files)


@pytest.mark.parametrize("store_place", ["azurite"], indirect=True)
def test_the_mark_of_a_folder_is_no_file(placed_store: Store) -> None:
    # Write empty objects as folders, as ABFS does on an account without a hierarchical namespace.
    folder = f"{placed_store.root}/state/orders"
    for path in (folder, f"{folder}/offsets"):
        placed_store.write(path, b"")
    placed_store.write(f"{folder}/offsets/0", b"")
    assert [file.path for file in placed_store.list_files(folder)] == [f"{folder}/offsets/0"]
    assert placed_store.list_names(folder) == ["offsets"]


def test_more_files_than_a_page_are_listed(placed_store: Store) -> None:
    # A page of Azure and of S3 holds 5,000 and 1,000 names.
    folder = f"{placed_store.root}/state/offsets"
    for number in range(1_100):
        placed_store.write(f"{folder}/{number:05}", b"")
    paths = [file.path for file in placed_store.list_files(folder)]
    assert paths == [f"{folder}/{number:05}" for number in range(1_100)]
    assert len(placed_store.list_names(folder)) == 1_100


def test_a_moved_file_is_there_once_and_a_second_move_is_none(placed_store: Store) -> None:
    source, target = f"{placed_store.root}/state/1", f"{placed_store.root}/trash/1"
    placed_store.write(source, b"offsets")
    placed_store.move(source, target)
    placed_store.move(source, target)
    assert (placed_store.read(source), placed_store.read(target)) == (None, b"offsets")


def test_a_copy_does_not_share_its_content_with_the_original(placed_store: Store) -> None:
    source, target = f"{placed_store.root}/state/1", f"{placed_store.root}/backups/1"
    placed_store.write(source, b"offsets")
    placed_store.copy(source, target)
    placed_store.write(source, b"changed")
    assert placed_store.read(target) == b"offsets"
    with pytest.raises(FileNotFoundError):
        placed_store.copy(f"{placed_store.root}/missing", target)


def test_deleting_twice_is_deleting_once(placed_store: Store) -> None:
    path = f"{placed_store.root}/state/1"
    placed_store.write(path, b"")
    placed_store.delete(path)
    placed_store.delete(path)
    assert placed_store.read(path) is None
    assert placed_store.create(path, b"again")


@pytest.mark.parametrize("path", ["{root}", "{root}-other/x", "{root}/a/../../x", "{root}/.."])
def test_a_path_out_of_the_root_is_refused(placed_store: Store, path: str) -> None:
    with pytest.raises(InternalError) as refused:
        placed_store.read(path.format(root=placed_store.root))
    assert refused.value.error_id == "TIDE-STOR-002"
