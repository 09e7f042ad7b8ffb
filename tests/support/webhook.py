"""An HTTP endpoint that takes notices as JSON, and can refuse them, stay silent or send them elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tidemill.dev.ports import LOOPBACK


class Webhook:
    """Takes POSTs.

    Attributes:
        answer: Status of every answer.
        open: While it is not set no request is answered.
        leads_to: Target of a redirect.
        notices: Received notices, including refused ones.
        keys: The `Authorization` headers.
        paths: The paths that were asked for.
    """

    def __init__(self) -> None:
        self.answer = 204
        self.open = threading.Event()
        self.open.set()
        self.leads_to = ""
        self.notices: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # http.server's name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.paths.append(self.path)
                hook.keys.append(self.headers.get("Authorization"))
                hook.notices.append(json.loads(body))
                hook.open.wait()
                self.send_response(hook.answer)
                if hook.leads_to:
                    self.send_header("Location", hook.leads_to)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        serve = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def texts(self) -> list[str]:
        """Return the texts of the notifications, in order."""
        return [notice["text"] for notice in self.notices]

    def stop(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Yield an endpoint during a `with` block."""
    hook = Webhook()
    try:
        yield hook
    finally:
        hook.stop()
