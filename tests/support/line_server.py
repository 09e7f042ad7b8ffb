"""A TCP server that sends lines once to each connected client, as `nc -lk` does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds that a driver may take to connect.
TIMEOUT_SECONDS = 60.0


class LineServer:
    """Listens on a free port of this machine."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TIMEOUT_SECONDS)
        self._client: socket.socket | None = None
        self.port: int = self._listener.getsockname()[1]

    def accept(self) -> None:
        """Wait for the next reader, who takes the place of the last one."""
        self._hang_up()
        self._client, _ = self._listener.accept()

    def send(self, *lines: str) -> None:
        """Send lines to the reader."""
        assert self._client is not None
        self._client.sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        self._hang_up()
        self._listener.close()

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


@contextmanager
def line_server() -> Iterator[LineServer]:
    """Yield a server during a `with` block."""
    server = LineServer()
    try:
        yield server
    finally:
        server.close()
