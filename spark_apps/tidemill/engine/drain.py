"""The drain: a stop after the running batch."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Drain:
    """A request to stop, which a signal sets once and nothing revokes."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Return True if a stop was requested."""
        return self._event.is_set()

    def request(self) -> None:
        """Request a stop."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the request; return True if it came."""
        return self._event.wait(seconds)

    def on_signals(self) -> None:
        """Request a stop on SIGTERM and SIGINT; call from the main thread."""

        def handle(_signal: int, _frame: FrameType | None) -> None:
            self.request()

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)
