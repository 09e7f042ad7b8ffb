"""Signs of life: which process is at work on a request, and when it was last heard of."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from tidemill.storage.store import Store

# Time between two signs: often enough for a person who waits, and one small write each for a store.
RENEWED_EVERY = timedelta(seconds=10)

# Silence after which a verb counts as dead: several signs missed, so a slow store is no death.
DEAD_AFTER = timedelta(minutes=1)


class SignOfLife(BaseModel):
    """What an attempt at a request says of itself while it is at work.

    Args:
        host: Machine or pod.
        process: Its number there.
        at: When it said so.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    host: str = Field(default_factory=platform.node)
    process: int = Field(default_factory=os.getpid)
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    def is_silent(self, now: datetime) -> bool:
        """Whether it is dead or hangs, as far as anybody can tell."""
        return now - self.at > DEAD_AFTER

    def told(self, now: datetime | None = None) -> str:
        """Whether it lives, for a person."""
        now = now or datetime.now(UTC)
        word = "dead or hanging" if self.is_silent(now) else "at work"
        age = (now - self.at).total_seconds()
        return f"{word}: process {self.process} on {self.host}, heard of {age:.0f} s ago"


@contextmanager
def shown_alive(store: Store, path: str) -> Iterator[None]:
    """Show at `path` that this process is at work, until the end of the block."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY.total_seconds()):
            # A store that is unavailable for a moment is the next steps' to notice.
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
