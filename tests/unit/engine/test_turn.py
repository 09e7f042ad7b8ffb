"""A driver waits while a backfill has its turn, and for no dead one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidemill.engine import turn as turns
from tidemill.engine.drain import Drain
from tidemill.engine.turn import Waiting, turn
from tidemill.storage.store import Store


class Looks(Drain):
    """A driver's drain that lets something happen between two looks, and counts them."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        super().__init__()
        self.happens = list(happens)
        self.count = 0

    def wait(self, seconds: float) -> bool:
        self.count += 1
        if self.happens:
            self.happens.pop(0)()
        return super().wait(0.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state/orders/turn.json")


def looks_of(store: Store, path: str, *happens: Callable[[], object]) -> int:
    looks = Looks(*happens)
    Waiting(store, path, looks).wait()
    return looks.count


def test_nobody_waits_where_no_backfill_has_the_turn(store: Store, path: str) -> None:
    assert looks_of(store, path) == 0
    with turn(store, path, "backfill-1"):
        pass
    assert looks_of(store, path) == 0


def test_a_driver_waits_until_the_backfill_has_committed(store: Store, path: str) -> None:
    with turn(store, path, "backfill-1"):
        assert looks_of(store, path, lambda: None, lambda: store.delete(path)) == 2


def test_a_stop_ends_the_wait(store: Store, path: str) -> None:
    with turn(store, path, "backfill-1"):
        looks = Looks()
        looks.happens = [lambda: None, looks.request]
        Waiting(store, path, looks).wait()
        assert looks.count == 2


def test_a_backfill_gives_its_turn_back_when_its_commit_fails(store: Store, path: str) -> None:
    with pytest.raises(OSError, match="full"), turn(store, path, "backfill-1"):
        raise OSError("the disk is full")
    assert store.read(path) is None


def test_what_a_dead_backfill_left_is_waited_for_once_and_a_new_one_again(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SILENT_AFTER_SECONDS", 0.0)
    store.write_json(path, {"v": 1, "by": "dead", "beat": 3})
    looks = Looks()
    driver = Waiting(store, path, looks)
    driver.wait()
    assert looks.count == 1
    driver.wait()
    assert looks.count == 1
    looks.happens = [lambda: store.delete(path)]
    store.write_json(path, {"v": 1, "by": "alive", "beat": 0})
    driver.wait()
    assert looks.count == 2


def test_a_turn_beats_while_the_commit_takes_long_and_then_no_more(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(turns, "MOST_BEATS", 3)
    with turn(store, path, "backfill-1"):
        for thread in turns.threading.enumerate():
            if thread.name == "turn":
                thread.join()
        assert store.read_json(path) == {"v": 1, "by": "backfill-1", "beat": 2}
