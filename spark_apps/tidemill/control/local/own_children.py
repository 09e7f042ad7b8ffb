"""Detached child processes of this process: the kernel keeps ended ones as zombies until they are reaped.

They belong to the process and not to one of its objects, so there is one list. A driver's starter usually
ends long before the driver; then the system reaps the driver.
"""

from __future__ import annotations

import subprocess
import threading

_children: list[subprocess.Popen[bytes]] = []

# Drivers are started from several threads.
_lock = threading.Lock()


def adopt(process: subprocess.Popen[bytes]) -> None:
    """Remember a child that no caller waits for."""
    with _lock:
        _children.append(process)


def collect() -> None:
    """Reap the children that have ended."""
    with _lock:
        _children[:] = [child for child in _children if child.poll() is None]
