"""How many requests may read storage at once.

Airflow's API server runs every plain function of every route, the heartbeats of tasks among them, in the same
forty threads. Storage that is silent would hold all of them, and tasks would be taken for dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException

# Of the API server's forty threads; the others stay Airflow's whatever storage does.
READERS_AT_ONCE = 8


class StorageGate:
    """Lets a few requests in and refuses the others at once: none of them waits in a thread."""

    def __init__(self, readers: int = READERS_AT_ONCE) -> None:
        self._free = threading.BoundedSemaphore(readers)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Read storage inside.

        Raises:
            HTTPException: 503, if as many as may read already.
        """
        if not self._free.acquire(blocking=False):
            raise too_slow()
        try:
            yield
        finally:
            self._free.release()


def too_slow() -> HTTPException:
    """What a request is told that cannot wait any longer; a page asks again in seconds by itself."""
    return HTTPException(503, "Storage is slow: other requests still wait for it.", {"Retry-After": "5"})
