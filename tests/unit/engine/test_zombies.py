"""A driver that stopped dead and comes back while a newer one runs: it is fenced off and doubles nothing."""

from __future__ import annotations

from tests.support.stores import StorePlace
from tests.support.zombies import STEPS, assert_exactly_once, rise


def test_zombies_of_every_step_double_and_lose_nothing(store_place: StorePlace) -> None:
    endings = rise(store_place, STEPS)
    assert endings == [75] * len(STEPS)
    assert_exactly_once(store_place, STEPS)
