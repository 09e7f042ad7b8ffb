"""Heartbeats: the process that works on a request, and the time of its last report."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from tidemill.storage.store import Store

# Time between two heartbeats: short enough for an operator who waits, and only one small write each.
RENEWED_EVERY = timedelta(seconds=10)

# Time without a heartbeat after which an operation counts as dead. It spans several heartbeats, so a slow
# store is not mistaken for a dead process.
DEAD_AFTER = timedelta(minutes=1)


class SignOfLife(BaseModel):
    """The heartbeat of an attempt at a request.

    Args:
        host: Machine or pod.
        process: Process id.
        at: Time of the heartbeat.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    host: str = Field(default_factory=platform.node)
    process: int = Field(default_factory=os.getpid)
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    def is_silent(self, now: datetime) -> bool:
        """Return True if the process is probably dead or hangs."""
        return now - self.at > DEAD_AFTER

    def told(self, now: datetime | None = None) -> str:
        """Return readable text about the process."""
        now = now or datetime.now(UTC)
        word = "dead or hanging" if self.is_silent(now) else "at work"
        age = (now - self.at).total_seconds()
        return f"{word}: process {self.process} on {self.host}, heard of {age:.0f} s ago"


@contextmanager
def shown_alive(store: Store, path: str) -> Iterator[None]:
    """Write heartbeats to `path` until the end of the block."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY.total_seconds()):
            # If the store is unavailable for a moment, the next steps report it.
            with suppress(Exception):
                _show(store, path)

    _show(store, path)
    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _show(store: Store, path: str) -> None:
    store.write_json(path, SignOfLife().model_dump(mode="json"))
