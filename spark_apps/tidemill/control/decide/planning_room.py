"""How many streams Spark begins to plan in one reconciliation: each takes a core for half a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# Longest wait for those that are being begun, in seconds; a visit has 45.
LONGEST_WAIT = 10.0


@dataclass
class PlanningRoom:
    """Places for plannings; visits ask from several threads.

    It is no place in the wave: planning stops nothing.

    Args:
        room: How many more may be begun.
    """

    room: int
    _being_begun: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def begin(self, act: Callable[[], None]) -> bool:
        """Whether there was a place; then `act` was called. If it raises, its place is another one's."""
        with self._changed:
            self._changed.wait_for(lambda: self.room > 0 or not self._being_begun, LONGEST_WAIT)
            if self.room <= 0:
                return False
            self.room -= 1
            self._being_begun += 1
        given_back = 1
        try:
            act()
            given_back = 0
        finally:
            with self._changed:
                self.room += given_back
                self._being_begun -= 1
                self._changed.notify_all()
        return True
