"""An object store's front door at which a driver can be killed while it commits to a Delta table.

Requests are handed on as they come. The one that would make a commit file is either not handed on (`asked`),
or its answer is not given back (`landed`): in both cases the driver is dead before it hears anything.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.driver_process import DriverProcess
from tidemill.dev.ports import LOOPBACK

# Headers of one hop; the body is handed on as a whole.
_HOP = {"connection", "transfer-encoding", "content-length", "expect"}


@dataclass
class Trap:
    """The kill and its commit.

    Args:
        table: Part of the table's path.
        moment: `asked` or `landed`.
        prey: The driver; it commits long after it was started.
    """

    table: str
    moment: str
    prey: DriverProcess | None = None
    sprung: threading.Event = field(default_factory=threading.Event)

    def takes(self, method: str, path: str) -> bool:
        """Return True if a request commits to the table; the first such request springs the trap."""
        if method != "PUT" or self.sprung.is_set():
            return False
        return re.search(rf"{self.table}/_delta_log/\d{{20}}\.json", path) is not None


class KillingProxy(ThreadingHTTPServer):
    """The proxy of one server."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.server_host = urlsplit(server).netloc
        self.trap: Trap | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error of a killed driver, whose connection breaks."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _hand_on(self) -> None:
        proxy = self.server
        assert isinstance(proxy, KillingProxy)
        body = self._body()
        trap = proxy.trap
        is_caught = trap is not None and trap.takes(self.command, self.path)
        if trap is not None and is_caught and trap.moment == "asked":
            self._spring(trap)
            return
        backend = http.client.HTTPConnection(proxy.server_host)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        backend.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            backend.putheader(name, value)
        backend.endheaders(body)
        answer = backend.getresponse()
        content = answer.read()
        backend.close()
        if trap is not None and is_caught:
            self._spring(trap)
            return
        self._answer(answer, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _hand_on  # noqa: N815

    def _spring(self, trap: Trap) -> None:
        assert trap.prey is not None
        trap.sprung.set()
        trap.prey.kill()
        self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        self.send_response_only(answer.status, answer.reason)
        told = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
        # An answer to HEAD has the length of a body that it does not have.
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        for name, value in {**told, "Content-Length": length or str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # http.server's name
        """Nothing."""


@contextmanager
def killing_proxy(server: str) -> Iterator[KillingProxy]:
    """Yield a proxy in front of a server, for the length of a block."""
    proxy = KillingProxy(server)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
