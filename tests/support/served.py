"""A server of a test, which answers in a thread during a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=HTTPServer)

# Seconds between two looks whether it is to end.
POLL_SECONDS = 0.01


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Let it answer, and close it in the end."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
