"""Waiting on a condition with a deadline: never a sleep of a guessed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds between two looks, where a look costs nothing.
POLL_SECONDS = 0.05

# A check that asks Spark or a server takes CPU time from the awaited work. So checks take at most a fifth,
# and a next one within seconds.
REST_PER_LOOK = 4
LONGEST_REST_SECONDS = 2.0


def eventually(
    condition: Callable[[], T],
    expectation: str,
    timeout_seconds: float = 30,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Return the first true value of `condition`; fail with the expectation after the timeout."""
    began = looked = time.monotonic()
    while not (value := condition()):
        now = time.monotonic()
        if now > began + timeout_seconds:
            raise AssertionError(f"not within {timeout_seconds:g} s: {expectation}; last seen: {value!r}")
        rest = min(REST_PER_LOOK * (now - looked), LONGEST_REST_SECONDS)
        time.sleep(max(poll_seconds, rest))
        looked = time.monotonic()
    return value
