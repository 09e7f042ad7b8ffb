"""Storage that fails now and then, or hangs, for what lies below some folder."""

from __future__ import annotations

import threading

from obstore.exceptions import GenericError

from tidemill.storage.store import Store

# obstore's message for a store that did not answer in any of its retries.
AWAY = "Generic S3 error: error sending request, after 10 retries"


class FlakyStore(Store):
    """Fails a number of reads below a folder, then works.

    Args:
        root: Storage root.
        folder: Whose objects cannot be read.
        failures: Number of reads that fail; the default is all.
    """

    def __init__(self, root: str, folder: str, failures: float = float("inf")) -> None:
        super().__init__(root)
        self._folder = folder
        self._lock = threading.Lock()
        self.failures = failures

    def read(self, path: str) -> bytes | None:
        with self._lock:
            if path.startswith(self._folder) and self.failures > 0:
                self.failures -= 1
                raise GenericError(AWAY)
        return super().read(path)


class HangingStore(Store):
    """Hangs at each read below a folder until it is let go.

    Args:
        root: Storage root.
        folder: Whose objects hang.
    """

    def __init__(self, root: str, folder: str) -> None:
        super().__init__(root)
        self._folder = folder
        self._let_go = threading.Event()
        self.returned = threading.Event()

    def let_go(self) -> None:
        self._let_go.set()

    def read(self, path: str) -> bytes | None:
        if not path.startswith(self._folder):
            return super().read(path)
        assert self._let_go.wait(60)
        try:
            return super().read(path)
        finally:
            self.returned.set()
