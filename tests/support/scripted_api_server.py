"""An API server that answers as a test has written down, for what the real client makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from tests.support.served import served

# Token that clients of the kubeconfig send.
TOKEN = "not-a-secret"

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "test",
    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    "users": [{"name": "test", "user": {"token": TOKEN}}],
}

# Value instead of a status: the request is carried out, but its response is lost.
LOST = 0


class ScriptedApiServer(ThreadingHTTPServer):
    """Answers every request with the next scripted response, and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, str, Any]] = []
        self.tokens: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        server = cast(ScriptedApiServer, self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = json.loads(body) if body else None
        server.asked.append((self.command, self.path, self.headers.get("Content-Type") or "", sent))
        server.tokens.append((self.headers.get("Authorization") or "").removeprefix("Bearer "))
        status, answer = server.answers.pop(0)
        if status == LOST:
            self.close_connection = True
            return
        text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def scripted_api_server() -> Iterator[ScriptedApiServer]:
    with served(ScriptedApiServer()) as server:
        yield server


def kubeconfig_of(address: str) -> dict[str, Any]:
    """Return the document that leads to it."""
    return {**KUBECONFIG, "clusters": [{"name": "test", "cluster": {"server": address}}]}


def kubeconfig(folder: Path, address: str) -> Path:
    """Write the kubeconfig to a file."""
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig_of(address)))
    return file
