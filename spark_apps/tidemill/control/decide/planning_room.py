"""Limit of Spark plans that one reconciliation starts; each takes a core for half a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# Maximum seconds to wait for plans that are being started; a visit has 45.
LONGEST_WAIT = 10.0


@dataclass
class PlanningRoom:
    """Slots for Spark plans, requested from several threads.

    They are independent of the wave, because planning stops no stream.

    Args:
        room: Number of plans that may still be started.
    """

    room: int
    _being_begun: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def begin(self, act: Callable[[], None]) -> bool:
        """Call `act` and return True if a slot is free. If `act` raises, the slot becomes free again."""
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
