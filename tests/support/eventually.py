"""Waiting on a condition with a deadline: never a sleep of a guessed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds between two looks, where a look costs nothing.
POLL_SECONDS = 0.05


def eventually(
    condition: Callable[[], T],
    expectation: str,
    timeout_seconds: float = 30,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """The first true value of `condition`; fails with the expectation after the time."""
    deadline = time.monotonic() + timeout_seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds:g} s: {expectation}; last seen: {value!r}")
        time.sleep(poll_seconds)
    return value
