"""How far work on many objects has come, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Advance:
    """How far one piece of work has come.

    Args:
        what: The work, in a few words.
        done: Objects that are done.
        total: Of so many.
        size: Bytes of those that are done; 0 where nobody counts them.
    """

    what: str
    done: int = 0
    total: int = 1
    size: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether there is more to say than that it is at work."""
        return self.total > 1


Told = Callable[[Advance], None]


def nobody_told(_: Advance) -> None:
    """Nobody waits."""


@dataclass(frozen=True)
class Work:
    """What is counted, and who is told of it.

    Args:
        what: The work, in a few words.
        total: Objects.
        told: Called before the first object, and after each.
    """

    what: str
    total: int
    told: Told = nobody_told

    def counted(
        self, results: Iterable[Result], size_of: Callable[[Result], int] = lambda _: 0
    ) -> Iterator[Result]:
        """Pass results on as they come, one for each object. Of no objects nothing is told."""
        if self.total:
            self.told(Advance(self.what, 0, self.total))
        size = 0
        for done, result in enumerate(results, 1):
            size += size_of(result)
            self.told(Advance(self.what, done, self.total, size))
            yield result
