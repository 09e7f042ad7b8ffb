"""A stop is asked for once and never taken back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tidemill.engine.drain import Drain


@pytest.fixture(autouse=True)
def _handlers_of_this_test_only() -> Iterator[None]:
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_stop(name: signal.Signals) -> None:
    drain = Drain()
    drain.on_signals()
    assert not drain.requested
    os.kill(os.getpid(), name)
    assert drain.requested
    os.kill(os.getpid(), name)
    assert drain.requested


def test_a_wait_ends_with_the_request() -> None:
    drain = Drain()
    assert not drain.wait(0)
    drain.request()
    assert drain.wait(60)
