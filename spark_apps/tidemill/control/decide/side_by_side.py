"""Run an action for many names in parallel, so that none delays the others."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# Returns True if the time of this action is over and its result is ignored.
IsLate = Callable[[], bool]


@dataclass(frozen=True)
class Limits:
    """Limits of parallelism and duration.

    Args:
        at_once: Maximum number in parallel. They mostly wait for storage or an API server.
        each_seconds: Maximum duration of one action.
        all_seconds: Maximum duration of all actions together.
    """

    at_once: int
    each_seconds: float
    all_seconds: float


def side_by_side(
    names: Iterable[str], act: Callable[[str, IsLate], T], limits: Limits
) -> Iterator[tuple[str, T | None]]:
    """Yield each name with the result of `act`, in order of completion; with None if it took too long.

    A hanging action is abandoned, and its thread ends with the process at the latest. `IsLate` lets it detect
    this, so that it changes nothing if it continues.

    Args:
        names: The names, without duplicates.
        act: The action; must not raise.
        limits: The limits.
    """
    waiting, deadlines = deque(names), dict[str, float]()
    results = queue.SimpleQueue[tuple[str, T]]()
    end = time.monotonic() + limits.all_seconds

    def run(name: str) -> None:
        results.put((name, act(name, lambda: name not in deadlines)))

    while (waiting or deadlines) and time.monotonic() < end:
        while waiting and len(deadlines) < limits.at_once:
            name = waiting.popleft()
            deadlines[name] = min(time.monotonic() + limits.each_seconds, end)
            threading.Thread(target=run, args=(name,), name=f"visit-{name}", daemon=True).start()
        try:
            name, result = results.get(timeout=max(0.0, min(deadlines.values()) - time.monotonic()))
        except queue.Empty:
            for late in [name for name, at in deadlines.items() if at <= time.monotonic()]:
                del deadlines[late]
                yield late, None
            continue
        # A result after the deadline is dropped, because its name was already yielded as late.
        if deadlines.pop(name, None) is not None:
            yield name, result
    for late in [*deadlines, *waiting]:
        deadlines.pop(late, None)
        yield late, None
