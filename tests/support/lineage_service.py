"""A service that takes OpenLineage events over HTTP, keeps them, and can refuse them or stay silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tidemill.dev.ports import LOOPBACK

PATH = "/api/v1/lineage"


class LineageService:
    """Takes POSTs as Marquez does.

    Attributes:
        answer: Status of every answer.
        open: While it is not set no request is answered.
        events: Received events, including refused ones.
        keys: The `Authorization` headers.
    """

    def __init__(self) -> None:
        self.answer = 201
        self.open = threading.Event()
        self.open.set()
        self.events: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # http.server's name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == PATH, self.path
                service.keys.append(self.headers.get("Authorization"))
                # A test that sees the event may already change the answer for the next one.
                answer = service.answer
                service.events.append(json.loads(body))
                service.open.wait()
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        serve = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def types(self) -> list[str]:
        """Return the types of the events, in order."""
        return [event["eventType"] for event in self.events]

    def stop(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def lineage_service() -> Iterator[LineageService]:
    """Yield a service during a `with` block."""
    service = LineageService()
    try:
        yield service
    finally:
        service.stop()
