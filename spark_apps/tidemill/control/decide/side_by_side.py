"""Doing one thing for many names, several at once, none of which may hold up the others."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# Whether the time of this one is over, so that nobody waits for it any more.
IsLate = Callable[[], bool]


@dataclass(frozen=True)
class Limits:
    """How many at once, and for how long.

    Args:
        at_once: How many. They wait for a storage or an API server most of the time.
        each_seconds: Longest that one may take.
        all_seconds: Longest that all may take together.
    """

    at_once: int
    each_seconds: float
    all_seconds: float


def side_by_side(
    names: Iterable[str], act: Callable[[str, IsLate], T], limits: Limits
) -> Iterator[tuple[str, T | None]]:
    """Yield each name with what `act` returned, as they come; with None, those that took too long.

    One that hangs is left behind: its thread ends with the process at the latest. It is told by `IsLate`
    that nobody waits, so that it changes nothing any more if it should wake up.

    Args:
        names: Each once.
        act: Must not raise.
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
        # One that comes after its time was told as late.
        if deadlines.pop(name, None) is not None:
            yield name, result
    for late in [*deadlines, *waiting]:
        deadlines.pop(late, None)
        yield late, None
