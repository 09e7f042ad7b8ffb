"""Drain: stop after the running batch."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Drain:
    """A request to stop, set once by a signal and never taken back."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask for a stop."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the request; True if it came."""
        return self._event.wait(seconds)

    def on_signals(self) -> None:
        """Let SIGTERM and SIGINT ask; call from the main thread."""

        def handle(_signal: int, _frame: FrameType | None) -> None:
            self.request()

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)
