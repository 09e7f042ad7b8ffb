"""Two processes that claim the same objects at the same moments."""

from __future__ import annotations

from functools import partial

from tests.support.race import race
from tests.support.stores import StorePlace


def assert_one_winner_each(place: StorePlace, claims: int) -> None:
    """Let both processes claim each object, and check that one wins and that its content is stored."""
    won = race(partial(_claim, place), claims)
    store = place.open()
    for number in range(claims):
        assert won["one"][number] != won["other"][number]
        winner = b"one" if won["one"][number] else b"other"
        assert store.read(f"{store.root}/claims/{number:04}") == winner


def _claim(place: StorePlace, number: int, name: str) -> bool:
    store = place.open()
    return store.create(f"{store.root}/claims/{number:04}", name.encode())
