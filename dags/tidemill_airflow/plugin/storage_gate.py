"""Limit of requests that read storage at the same time.

Airflow's API server runs plain route functions, including the heartbeats of tasks, in the same forty threads.
Unresponsive storage would block all of them, and Airflow would consider the tasks dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException

# Part of the API server's forty threads; the others stay free for Airflow even if storage does not respond.
READERS_AT_ONCE = 8


class StorageGate:
    """Admits a few requests and refuses others at once, so that none waits in a thread."""

    def __init__(self, readers: int = READERS_AT_ONCE) -> None:
        self._free = threading.BoundedSemaphore(readers)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Admit a request that reads storage.

        Raises:
            HTTPException: 503, if the limit is reached.
        """
        if not self._free.acquire(blocking=False):
            raise too_slow()
        try:
            yield
        finally:
            self._free.release()


def too_slow() -> HTTPException:
    """Return the error for a request that cannot wait; the page repeats it after seconds."""
    return HTTPException(503, "Storage is slow: other requests still wait for it.", {"Retry-After": "5"})
