"""Epochs: each number is one driver's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.race import race
from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.names import Layout
from tidemill.storage.store import Store

RACES = 30


def test_epochs_count_up_from_one(tmp_path: Path) -> None:
    store, layout = Store(str(tmp_path)), Layout(str(tmp_path))
    assert newest_epoch(store, layout, "orders") == 0
    assert [claim_epoch(store, layout, "orders", f"run-{n}") for n in range(3)] == [1, 2, 3]
    assert newest_epoch(store, layout, "orders") == 3
    assert claim_epoch(store, layout, "payments", "run-0") == 1


def test_a_claim_tells_who_made_it(tmp_path: Path) -> None:
    store, layout = Store(str(tmp_path)), Layout(str(tmp_path))
    claim_epoch(store, layout, "orders", "run-7")
    claim = store.read_json(f"{layout.epochs('orders')}/00000001.json")
    assert claim is not None
    assert (claim["epoch"], claim["run_id"]) == (1, "run-7")


def test_drivers_that_start_at_once_get_different_epochs(tmp_path: Path) -> None:
    claimed = race(partial(claim, str(tmp_path)), RACES)
    assert sorted(claimed["one"] + claimed["other"]) == list(range(1, 2 * RACES + 1))
    # Each driver's own epochs rise, so a later start always fences off an earlier one.
    assert all(epochs == sorted(epochs) for epochs in claimed.values())


def claim(root: str, _: int, name: str) -> int:
    return claim_epoch(Store(root), Layout(root), "orders", name)
