"""Epochs and generations: one winner each, on every store."""

from __future__ import annotations

from functools import partial

from tests.support.race import race
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import Current, read_current, read_history, switch_generation
from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.names import Layout

RACES = 100


def claim(place: StorePlace, _: int, name: str) -> int:
    store = place.open()
    return claim_epoch(store, Layout(store.root), "orders", name)


def switch(place: StorePlace, number: int, name: str) -> bool:
    store = place.open()
    new = Current(number=number + 1, pipeline="orders", generation=f"g{number + 1:04}", why="a race", by=name)
    return switch_generation(store, Layout(store.root), new)


def test_drivers_that_start_at_once_get_different_epochs(store_place: StorePlace) -> None:
    claimed = race(partial(claim, store_place), RACES)
    assert sorted(claimed["one"] + claimed["other"]) == list(range(1, 2 * RACES + 1))
    # Each driver's own epochs rise, so a later start always fences off an earlier one.
    assert all(epochs == sorted(epochs) for epochs in claimed.values())
    store = store_place.open()
    assert newest_epoch(store, Layout(store.root), "orders") == 2 * RACES


def test_of_two_who_change_the_generation_at_once_one_succeeds(store_place: StorePlace) -> None:
    switched = race(partial(switch, store_place), RACES)
    store = store_place.open()
    history = read_history(store, Layout(store.root), "orders")
    assert [record.number for record in history] == list(range(RACES, 0, -1))
    for record in history:
        assert [name for name in switched if switched[name][record.number - 1]] == [record.by]
    assert read_current(store, Layout(store.root), "orders") == history[0]
