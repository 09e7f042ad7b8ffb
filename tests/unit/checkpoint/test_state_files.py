"""State inventory from the names of files: which versions can be loaded, and what is missing if not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from tidemill.checkpoint.reading.log_files import CommitsFile, TornFileError
from tidemill.checkpoint.reading.state_files import Operator, StoreKey, parse_operator
from tidemill.checkpoint.reading.state_inventory import (
    Chain,
    CommitsOf,
    Missing,
    StateInventory,
    read_inventory,
)
from tidemill.storage.store import StoredFile

PATH = "/root/state/orders/g0001"
START = datetime(2024, 1, 1, tzinfo=UTC)
KEY = StoreKey(0, 0)


def inventory(names: Iterable[str], *operators: Operator, empty: Iterable[str] = ()) -> StateInventory:
    files = [
        StoredFile(f"{PATH}/{name}", 0 if name in empty else 100, START + timedelta(seconds=place))
        for place, name in enumerate(names)
    ]
    return read_inventory(PATH, files, operators)


def unique(version: int, attempt: int = 1) -> str:
    return f"{version:08d}-0000-4000-8000-{attempt:012d}"


def format_1(batch_id: int) -> CommitsFile | None:
    return CommitsFile(batch_id, 1)


def format_2(*, kept_from: int = 0, attempt: int = 1) -> CommitsOf:
    """Return one operator with one partition and one store, without files older than `kept_from`."""

    def commits(batch_id: int) -> CommitsFile | None:
        if batch_id < kept_from:
            return None
        return CommitsFile(batch_id, 2, None, {0: ((unique(batch_id + 1, attempt),),)})

    return commits


def names_of(chain: Chain | Missing) -> list[str]:
    assert isinstance(chain, Chain)
    return [held.file.path.removeprefix(f"{PATH}/state/0/0/") for held in chain.files]


def test_version_0_is_empty_and_needs_no_file() -> None:
    assert inventory([]).chain(KEY, 0, format_1) == Chain(None, ())


@pytest.mark.parametrize(("change", "snapshot"), [("changelog", "zip"), ("delta", "snapshot")])
def test_a_version_is_its_newest_snapshot_and_the_changes_after_it(change: str, snapshot: str) -> None:
    names = [f"state/0/0/{version}.{change}" for version in range(1, 8)]
    state = inventory([*names, f"state/0/0/3.{snapshot}", f"state/0/0/5.{snapshot}"])
    assert names_of(state.chain(KEY, 7, format_1)) == [f"5.{snapshot}", f"6.{change}", f"7.{change}"]
    assert names_of(state.chain(KEY, 2, format_1)) == [f"1.{change}", f"2.{change}"]
    assert list(state.loadable_versions(format_1)) == [7, 6, 5, 4, 3, 2, 1]
    assert list(state.loadable_versions(format_1, newest=2)) == [2, 1]


def test_without_the_change_before_it_a_version_cannot_be_loaded() -> None:
    state = inventory(f"state/0/0/{name}" for name in ("3.zip", "4.changelog", "6.changelog", "7.changelog"))
    assert state.chain(KEY, 7, format_1) == Missing(KEY, 7, "state/0/0/5 is missing")
    assert list(state.loadable_versions(format_1)) == [4, 3]


def test_after_a_purge_only_what_follows_a_snapshot_can_be_loaded() -> None:
    state = inventory(f"state/0/0/{name}" for name in ("4.changelog", "5.changelog", "5.zip", "6.changelog"))
    assert list(state.loadable_versions(format_1)) == [6, 5]


def test_in_format_2_the_commit_says_which_attempt_counts() -> None:
    names = [f"state/0/0/{version}_{unique(version)}.changelog" for version in (1, 2, 3)]
    state = inventory([*names, f"state/0/0/3_{unique(3, attempt=2)}.changelog"])
    assert names_of(state.chain(KEY, 3, format_2())) == [name.removeprefix("state/0/0/") for name in names]
    assert isinstance(state.chain(KEY, 3, format_2(attempt=3)), Missing)


def test_state_of_an_attempt_that_was_never_committed_is_not_the_committed_state() -> None:
    state = inventory([f"state/0/0/1_{unique(1, attempt=2)}.changelog"])
    missing = state.chain(KEY, 1, format_2())
    assert missing == Missing(KEY, 1, f"state/0/0/1_{unique(1)} is missing")


def test_where_the_commit_is_purged_the_last_written_attempt_counts() -> None:
    state = inventory(
        [
            f"state/0/0/1_{unique(1, attempt=2)}.changelog",
            f"state/0/0/1_{unique(1)}.changelog",
            f"state/0/0/2_{unique(2)}.changelog",
        ]
    )
    assert names_of(state.chain(KEY, 2, format_2(kept_from=1))) == [
        f"1_{unique(1)}.changelog",
        f"2_{unique(2)}.changelog",
    ]


def test_every_partition_and_every_store_of_an_operator_is_needed() -> None:
    joined = Operator(0, "symmetricHashJoin", ("left", "right"), 2)
    names = [
        f"state/0/{partition}/{store}/1.changelog" for partition in (0, 1) for store in ("left", "right")
    ]
    assert inventory(names, joined).missing(1, format_1) == []
    assert inventory(names[:-1], joined).missing(1, format_1) == [
        Missing(StoreKey(0, 1, "right"), 1, "state/0/1/right/1 is missing")
    ]
    assert [problem.key for problem in inventory(names[:2], joined).missing(1, format_1)] == [
        StoreKey(0, 1, "left"),
        StoreKey(0, 1, "right"),
    ]


def test_unique_ids_of_a_partition_stand_in_the_order_of_its_stores() -> None:
    joined = Operator(0, "symmetricHashJoin", ("right", "left"), 1)
    state = inventory(
        [f"state/0/0/right/1_{unique(1, 7)}.changelog", f"state/0/0/left/1_{unique(1, 8)}.changelog"], joined
    )
    ids = ((unique(1, 7), unique(1, 8)),)
    assert state.missing(1, lambda batch_id: CommitsFile(batch_id, 2, None, {0: ids})) == []
    swapped = (ids[0][::-1],)
    assert len(state.missing(1, lambda batch_id: CommitsFile(batch_id, 2, None, {0: swapped}))) == 2


def test_an_empty_file_is_as_bad_as_none() -> None:
    state = inventory(["state/0/0/1.changelog"], empty=["state/0/0/1.changelog"])
    assert state.missing(1, format_1) == [Missing(KEY, 1, "state/0/0/1.changelog is empty")]


def test_files_that_hold_no_version_are_counted_and_not_taken_for_one() -> None:
    state = inventory(
        [
            "state/0/0/1.changelog",
            "state/0/0/1.changelog.crc",
            "state/0/0/.1.changelog.crc",
            "state/0/0/.2.changelog.4f6a.tmp",
            "state/0/0/2.note",
            "state/0/0/SSTs/000009-4f6a.sst",
            "state/0/0/logs/000012-4f6a.log",
            "state/0/0/_metadata/schema",
            "state/0/_metadata/metadata",
            "offsets/0",
        ]
    )
    files = state.stores[KEY]
    assert (files.versions, files.count, files.size) == ([1], 7, 700)
    assert sorted(files.data) == ["000009-4f6a.sst", "000012-4f6a.log"]
    assert list(state.stores) == [KEY]
    assert files.changes[1][0].checksum == StoredFile(
        f"{PATH}/state/0/0/1.changelog.crc", 100, START + timedelta(seconds=1)
    )


def test_an_operator_is_described_by_name_stores_and_partitions() -> None:
    content = (
        b'v1\n{"operatorInfo":{"operatorId":1,"operatorName":"dedupe"},"stateStoreInfo":'
        b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
    )
    assert parse_operator(content) == Operator(1, "dedupe", ("default",), 2)
    for length in range(len(content)):
        with pytest.raises(TornFileError):
            parse_operator(content[:length])
