"""Write the progress of long work to a task's log, at intervals; short work writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.spec.readable import readable_size

if TYPE_CHECKING:
    from tidemill.storage.advance import Advance

# Minimum seconds between two lines.
LINE_SECONDS = 10.0


class AdvanceLog:
    """Progress callback for consecutive pieces of work that keeps a task's log short.

    Args:
        write: Writes a line.
        clock: Returns seconds.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._written = clock()
        self._what = ""

    def tell(self, advance: Advance) -> None:
        """Write the progress if the last line is old.

        Work that has written lines also gets a line at its end.
        """
        now, ends = self._clock(), advance.done == advance.total
        if advance.done == 0:
            # Work begins. A step that counts nothing writes only this line.
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
