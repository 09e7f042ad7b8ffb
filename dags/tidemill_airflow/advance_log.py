"""How far long work has come, in a task's log: a line now and then, and none of work that is done at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.spec.readable import readable_size

if TYPE_CHECKING:
    from tidemill.storage.advance import Advance

# Seconds between two lines, at least.
LINE_SECONDS = 10.0


class AdvanceLog:
    """Told of advances, one piece of work after the other; a task's log stays readable.

    Args:
        write: Takes a line.
        clock: Seconds.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._written = clock()
        self._what = ""

    def tell(self, advance: Advance) -> None:
        """Write how far it is, if the last line is old; the last line of work that had others is its end."""
        now, ends = self._clock(), advance.done == advance.total
        if advance.done == 0:
            # Work begins. Of a step of which nothing is counted, nothing more is heard.
            self._written = now
            if not advance.is_counted:
                self._write(advance.what)
            return
        if not (ends and self._what == advance.what) and now - self._written < LINE_SECONDS:
            return
        self._written = now
        self._what = "" if ends else advance.what
        size = f", {readable_size(advance.size)}" if advance.size else ""
        self._write(f"{advance.what}: {advance.done} of {advance.total} files{size}")
