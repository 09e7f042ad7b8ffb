"""Tables through the arrow door, on every store: written, read, raced for."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from tests.support.commits import commit_of
from tests.support.race import race
from tests.support.stores import StorePlace
from tidemill.ledger.read import open_table, read_ledger, transaction_version
from tidemill.names import Layout
from tidemill.sinks.table_log import TableLog
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import write_part

COLUMNS = pa.schema([("id", pa.int64())])

# Commits that two processes race for. An object store's takes some 30 ms, refresh and loss included.
RACES = 20


def append(path: str, batch_id: int, driver: str, pipeline: str = "orders") -> bool:
    """Write a batch of one row like the arrow writer, and return True if this driver committed it."""
    log = TableLog(path)
    log.create(COLUMNS)
    row = pa.record_batch([[batch_id]], schema=COLUMNS)
    part = write_part(path, f"part-{pipeline}-{batch_id}-{driver}.parquet", COLUMNS, [row], access_to(path))
    assert part is not None
    return log.commit([part], commit_of(batch_id, driver, pipeline), COLUMNS).committed


@pytest.fixture
def path(store_root: str) -> str:
    return Layout(store_root).table("bronze/orders")


def test_a_table_is_written_and_its_ledger_read(store_place: StorePlace, path: str) -> None:
    assert (open_table(path), read_ledger(path)) == (None, [])
    assert [append(path, batch_id, "one") for batch_id in (0, 1, 2)] == [True] * 3
    assert store_place.ids(path) == [0, 1, 2]
    assert [commit.entry.batch_id for commit in read_ledger(path) if commit.entry] == [2, 1, 0]
    assert transaction_version(path, commit_of(0).app_id) == 2


def test_a_repeated_batch_is_in_the_table_once(store_place: StorePlace, path: str) -> None:
    assert [append(path, 0, "one"), append(path, 0, "other")] == [True, False]
    assert store_place.ids(path) == [0]


def write_for_same_pipeline(place: StorePlace, number: int, name: str) -> bool:
    place.open()
    return append(Layout(place.root).table("bronze/orders"), number, name)


def write_for_own_pipeline(place: StorePlace, number: int, name: str) -> bool:
    place.open()
    return append(Layout(place.root).table("bronze/orders"), number, name, pipeline=name)


def test_two_drivers_that_race_for_a_batch_write_it_once(store_place: StorePlace, path: str) -> None:
    told = race(partial(write_for_same_pipeline, store_place), RACES)
    assert [sorted(pair) for pair in zip(told["one"], told["other"], strict=True)] == [[False, True]] * RACES
    assert store_place.ids(path) == list(range(RACES))
    assert len(read_ledger(path)) == RACES


def test_two_pipelines_that_race_for_a_table_both_get_their_batch_in(
    store_place: StorePlace, path: str
) -> None:
    told = race(partial(write_for_own_pipeline, store_place), RACES // 4)
    assert all(told["one"] + told["other"])
    assert store_place.ids(path) == sorted(2 * list(range(RACES // 4)))
