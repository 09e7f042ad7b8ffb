"""Detached processes that are still children of this process: the kernel keeps them as zombies until asked.

They belong to the process, not to an object of it, so there is one list. A driver's starter mostly ends
long before the driver; then the system collects it.
"""

from __future__ import annotations

import subprocess
import threading

_children: list[subprocess.Popen[bytes]] = []

# Drivers are started from several threads.
_lock = threading.Lock()


def adopt(process: subprocess.Popen[bytes]) -> None:
    """Remember a child that nobody will wait for."""
    with _lock:
        _children.append(process)


def collect() -> None:
    """Let go of those that have ended."""
    with _lock:
        _children[:] = [child for child in _children if child.poll() is None]
