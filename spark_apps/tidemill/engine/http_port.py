"""A read-only HTTP port: it answers GET, from what is in memory, and does nothing.

A daemon thread serves it. It cannot fail, delay or outlive the process that it is of.
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

# Longest a client may take to send its request, in seconds: below a probe's own period, so that a slow one
# holds no thread for long.
REQUEST_SECONDS = 5.0

# Requests served at the same time; a probe, a scrape and a person need three. More are hung up on, so that
# nobody makes a thread of the process' for each connection.
MOST_REQUESTS = 16

log = structlog.get_logger()


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    code: int
    content_type: str
    body: str | bytes


def json_answer(document: Any) -> Answer:
    """A JSON document."""
    return Answer(200, "application/json", json.dumps(document) + "\n")


def text_answer(code: int, body: str) -> Answer:
    """A line of text."""
    return Answer(code, "text/plain; charset=utf-8", body + "\n")


class HttpPort(ThreadingHTTPServer):
    """The server; `answer` says what a path answers."""

    daemon_threads = True
    request_queue_size = MOST_REQUESTS

    def __init__(self, address: tuple[str, int], answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Serve it in a thread, if one is free."""
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
        """In the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server_version = "tidemill"
    # Nobody needs to know which Python this is.
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
        """Nothing: probes come every few seconds, and a request line is a stranger's text."""


def serve(address: tuple[str, int], answer: Callable[[str], Answer]) -> HttpPort | None:
    """Serve in a daemon thread; None, and a line in the log, if the address cannot be had."""
    try:
        server = HttpPort(address, answer)
    except OSError as error:
        log.warning("no_http", host=address[0], port=address[1], reason=str(error))
        return None
    threading.Thread(target=server.serve_forever, name="http-port", daemon=True).start()
    return server
