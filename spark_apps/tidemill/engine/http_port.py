"""A read-only HTTP port that answers GET requests from memory.

A daemon thread serves it. It cannot fail or delay its process, and ends with it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

import structlog

# Maximum time for a client to send its request, in seconds. It is shorter than the period of a probe, so that
# a slow client blocks a thread only briefly.
REQUEST_SECONDS = 5.0

# Maximum number of concurrent requests. A probe, a scrape and a user need three. Further connections are
# closed, so that clients cannot start an unlimited number of threads.
MOST_REQUESTS = 16

log = structlog.get_logger()


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    code: int
    content_type: str
    body: str | bytes


def json_answer(document: Any) -> Answer:
    """Return a JSON answer."""
    return Answer(200, "application/json", json.dumps(document) + "\n")


def text_answer(code: int, body: str) -> Answer:
    """Return a plain text answer."""
    return Answer(code, "text/plain; charset=utf-8", body + "\n")


class HttpPort(ThreadingHTTPServer):
    """The server; `answer` returns the answer for a path."""

    daemon_threads = True
    request_queue_size = MOST_REQUESTS

    def __init__(self, address: tuple[str, int], answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Return the URL of the port."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Serve the request in a thread if one is free; otherwise close the connection."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread was started.
            self._free.release()
            raise

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Serve the request in its thread, then free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server_version = "tidemill"
    # The header must not reveal the Python version.
    sys_version = ""

    def do_GET(self) -> None:
        server = self.server
        if isinstance(server, HttpPort):
            self._send(server.answer(self.path.partition("?")[0]))

    def _refuse(self) -> None:
        self._send(text_answer(405, "this port only tells"), {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _send(self, answer: Answer, headers: Mapping[str, str] | None = None) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        self.send_response(answer.code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # http.server's name
        """Log nothing, because probes are frequent and a request line is untrusted text."""


def serve(address: tuple[str, int], answer: Callable[[str], Answer]) -> HttpPort | None:
    """Serve in a daemon thread; if the address is not available, log that and return None."""
    try:
        server = HttpPort(address, answer)
    except OSError as error:
        log.warning("no_http", host=address[0], port=address[1], reason=str(error))
        return None
    threading.Thread(target=server.serve_forever, name="http-port", daemon=True).start()
    return server
