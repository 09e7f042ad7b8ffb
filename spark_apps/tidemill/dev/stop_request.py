"""A person's or a service's wish that a foreground command ends: SIGTERM or CTRL-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Inside the block, the first SIGTERM or CTRL-C sets the event; a second one acts as it always does.

    Works in the main thread only, as signals do.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def request(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
