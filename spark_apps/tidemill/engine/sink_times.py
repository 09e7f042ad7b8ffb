"""The time that a batch spends on each of its sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SinkTimes:
    """Measures the times of one batch.

    Args:
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        # The output that reads the rows first, whose time includes the reading and the transform.
        self.reader: str | None = None

    @contextmanager
    def at(self, output: str) -> Iterator[None]:
        """Add the time of a `with` block to the time of an output."""
        begun = self._clock()
        try:
            yield
        finally:
            self._seconds[output] = self._seconds.get(output, 0.0) + self._clock() - begun

    @property
    def milliseconds(self) -> dict[str, int]:
        """Return the times by output, in milliseconds."""
        return {output: round(1000 * seconds) for output, seconds in self._seconds.items()}
