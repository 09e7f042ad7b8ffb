"""How long a batch was at each of its sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SinkTimes:
    """Counts the time of one batch.

    Args:
        clock: Monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        # The output that reads the rows first: reading and transform are in its time, too.
        self.reader: str | None = None

    @contextmanager
    def at(self, output: str) -> Iterator[None]:
        """Count what is done for an output, beside what was done for it before."""
        begun = self._clock()
        try:
            yield
        finally:
            self._seconds[output] = self._seconds.get(output, 0.0) + self._clock() - begun

    @property
    def milliseconds(self) -> dict[str, int]:
        """By output."""
        return {output: round(1000 * seconds) for output, seconds in self._seconds.items()}
