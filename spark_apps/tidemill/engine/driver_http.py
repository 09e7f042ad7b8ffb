"""The driver's HTTP port: probes, status, metrics and its query. It only tells; there is no verb here.

A daemon thread serves it, from what the reporter holds in memory: it reads no storage, asks neither Spark nor
the broker, and cannot fail, delay or outlive the stream.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

import structlog

from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.engine.liveness import Verdict, alive, ready
from tidemill.engine.metrics_text import CONTENT_TYPE, metrics_text

# Longest a client may take to send its request, in seconds: below a probe's own period, so that a slow one
# holds no thread for long.
REQUEST_SECONDS = 5.0

# Requests served at the same time; a probe, a scrape and a person need three. More are hung up on, so that
# nobody makes a thread of the driver's for each connection.
MOST_REQUESTS = 16

log = structlog.get_logger()


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    code: int
    content_type: str
    body: str


@dataclass(frozen=True)
class DriverView:
    """What the port shows of its driver.

    Args:
        status: Gives the newest status.
        silence: Gives the time since the last sign of life.
        trigger: A stream's trigger; None for a bounded run.
        query: Gives the newest report of the query; None before the first one, and in a backfill.
    """

    status: Callable[[], Status]
    silence: Callable[[], timedelta]
    trigger: timedelta | None
    query: Callable[[], QueryReport | None] = lambda: None


def answer(path: str, view: DriverView) -> Answer:
    """What a path answers."""
    status, silence = view.status(), view.silence()
    if path == "/healthz":
        return _probe(alive(status.state, silence, view.trigger))
    if path == "/readyz":
        return _probe(ready(status))
    if path == "/status":
        return _json(status.model_dump(mode="json"))
    if path == "/metrics":
        return Answer(200, CONTENT_TYPE, metrics_text(status, datetime.now(UTC) - silence))
    report = view.query()
    if path == "/queries":
        return _json([] if report is None else [report.summary()])
    if path == "/progress":
        return _json([] if report is None else list(report.recent_progress))
    if path == "/explain":
        return _text(200, "" if report is None else report.explain)
    return _text(404, "there are /healthz, /readyz, /status, /metrics, /queries, /progress and /explain")


def _json(document: Any) -> Answer:
    return Answer(200, "application/json", json.dumps(document) + "\n")


def _probe(verdict: Verdict) -> Answer:
    return _text(200 if verdict.good else 503, verdict.reason)


def _text(code: int, body: str) -> Answer:
    return Answer(code, "text/plain; charset=utf-8", body + "\n")


class DriverHttp(ThreadingHTTPServer):
    """The server; `view` is what it shows."""

    daemon_threads = True
    request_queue_size = MOST_REQUESTS

    def __init__(self, address: tuple[str, int], view: DriverView) -> None:
        self.view = view
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
        if isinstance(server, DriverHttp):
            self._send(answer(self.path.partition("?")[0], server.view))

    def _refuse(self) -> None:
        self._send(_text(405, "this port only tells"), {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _send(self, answer: Answer, headers: Mapping[str, str] | None = None) -> None:
        body = answer.body.encode()
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


def serve(address: tuple[str, int], view: DriverView) -> DriverHttp | None:
    """Serve in a daemon thread; None, and a line in the log, if the address cannot be had."""
    try:
        server = DriverHttp(address, view)
    except OSError as error:
        log.warning("no_http", host=address[0], port=address[1], reason=str(error))
        return None
    threading.Thread(target=server.serve_forever, name="driver-http", daemon=True).start()
    return server
