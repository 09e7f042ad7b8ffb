"""The lock of a slot: the holder of its descriptor is the only driver of the slot.

The kernel enforces the lock, which belongs to the open file. The starter takes it, the driver inherits the
descriptor, the starter closes its own, and the kernel releases the lock when the driver ends in any way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def try_lock(file: Path) -> Iterator[int | None]:
    """Yield the locked descriptor, or None if another process holds the lock; closed after the block."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock(file: Path) -> Iterator[None]:
    """Wait for the lock and hold it inside the block; for short reads and writes only."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
