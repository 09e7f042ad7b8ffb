"""The live generation: one winner, and a history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemill.checkpoint.current import (
    Base,
    BaseTable,
    Current,
    claim_generation,
    next_generation,
    read_current,
    read_history,
    read_or_create_current,
    switch_generation,
)
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.names import Layout
from tidemill.storage.store import Store


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path))


@pytest.fixture
def store(layout: Layout) -> Store:
    return Store(layout.root)


def rewound(number: int, generation: str, why: str = "rewind") -> Current:
    tables: dict[str, BaseTable | None] = {"bronze/orders": BaseTable(id="t", version=5)}
    base = Base(generation="g0001", batch_id=4, lineage={"g0001": 4}, tables=tables)
    return Current(number=number, pipeline="orders", generation=generation, why=why, base=base)


def test_before_the_first_start_there_is_none(store: Store, layout: Layout) -> None:
    assert read_current(store, layout, "orders") is None


def test_the_first_start_makes_the_first_generation(store: Store, layout: Layout) -> None:
    first = read_or_create_current(store, layout, "orders")
    assert (first.number, first.generation, first.base) == (1, "g0001", None)
    assert read_or_create_current(store, layout, "orders") == first


def test_a_switch_counts_at_once_and_keeps_the_history(store: Store, layout: Layout) -> None:
    first = read_or_create_current(store, layout, "orders")
    second = rewound(2, "g0002")
    assert switch_generation(store, layout, second)
    assert read_current(store, layout, "orders") == second
    assert read_history(store, layout, "orders") == [second, first]


def test_of_two_who_switch_at_once_one_is_told_that_it_did(store: Store, layout: Layout) -> None:
    read_or_create_current(store, layout, "orders")
    rivals = [rewound(2, f"g{number:04d}", f"rival {number}") for number in range(2, 10)]
    with ThreadPoolExecutor(len(rivals)) as threads:
        won = list(threads.map(lambda rival: switch_generation(store, layout, rival), rivals))
    assert won.count(True) == 1
    assert read_current(store, layout, "orders") == rivals[won.index(True)]


def test_the_next_generation_was_never_used(store: Store, layout: Layout, tmp_path: Path) -> None:
    assert next_generation(store, layout, "orders") == "g0001"
    read_or_create_current(store, layout, "orders")
    assert next_generation(store, layout, "orders") == "g0002"
    left_behind = tmp_path / "state" / "orders" / "g0007" / "metadata"
    left_behind.parent.mkdir(parents=True)
    left_behind.touch()
    assert next_generation(store, layout, "orders") == "g0008"
    switch_generation(store, layout, rewound(2, "g0012"))
    assert next_generation(store, layout, "orders") == "g0013"
    assert next_generation(store, layout, "orders", above="g0020") == "g0021"


def test_a_generation_is_claimed_by_one_attempt(store: Store, layout: Layout) -> None:
    read_or_create_current(store, layout, "orders")
    with ThreadPoolExecutor(8) as threads:
        claimed = list(threads.map(lambda _: claim_generation(store, layout, "orders"), range(8)))
    assert len({name for name, _ in claimed}) == len({query for _, query in claimed}) == 8
    for name, query in claimed:
        assert CheckpointBatches(store, layout.checkpoint("orders", name)).query_id() == query


def test_who_leads_to_a_generation_is_told_by_its_record() -> None:
    side = rewound(2, "g0002").side
    assert (side.pipeline, side.limits) == ("orders", {"g0001": 4, "g0002": None})
    assert side.up_to(2) == {"g0001": 2, "g0002": 2}
