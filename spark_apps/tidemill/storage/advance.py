"""Progress reports of work on many objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Advance:
    """The progress of one piece of work.

    Args:
        what: The work, in a few words.
        done: Number of finished objects.
        total: Number of all objects.
        size: Bytes of the finished objects; 0 if they are not counted.
    """

    what: str
    done: int = 0
    total: int = 1
    size: int = 0

    @property
    def is_counted(self) -> bool:
        """Return True if there are several objects to count."""
        return self.total > 1


Told = Callable[[Advance], None]


def nobody_told(_: Advance) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Work:
    """A piece of work and its progress callback.

    Args:
        what: The work, in a few words.
        total: Number of objects.
        told: Called before the first object, and after each.
    """

    what: str
    total: int
    told: Told = nobody_told

    def counted(
        self, results: Iterable[Result], size_of: Callable[[Result], int] = lambda _: 0
    ) -> Iterator[Result]:
        """Pass on results as they arrive, one for each object.

        Without objects, the callback is never called.
        """
        if self.total:
            self.told(Advance(self.what, 0, self.total))
        size = 0
        for done, result in enumerate(results, 1):
            size += size_of(result)
            self.told(Advance(self.what, done, self.total, size))
            yield result
