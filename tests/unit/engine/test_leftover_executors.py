"""A driver's API server requests before it makes executors; the server is a real one on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.served import served
from tidemill.engine.driver_pod import DriverPod
from tidemill.engine.leftover_executors import remove_leftover_executors

POD = DriverPod("tidemill-orders-0", "4d5e6f70", "10.96.0.7", "plant", "0a1b2c3d")


class ApiServer(HTTPServer):
    """Keeps what it was asked, and answers `code`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.code = 200
        self.asked: list[tuple[str, str | None, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_DELETE(self) -> None:
        assert isinstance(self.server, ApiServer)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.server.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with served(ApiServer()) as server:
        yield server


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("a-token\n")
    return tmp_path


def test_only_the_executors_of_this_driver_are_removed(server: ApiServer, account: Path) -> None:
    assert remove_leftover_executors(POD, server.url, account)
    ((path, authorization, body),) = server.asked
    assert urlsplit(path).path == "/api/v1/namespaces/plant/pods"
    assert parse_qs(urlsplit(path).query) == {"labelSelector": ["tidemill/driver-pod=tidemill-orders-0"]}
    assert authorization == "Bearer a-token"
    assert json.loads(body) == {"gracePeriodSeconds": 1}


@pytest.mark.parametrize("code", [403, 500])
def test_a_refusal_is_no_reason_not_to_start(server: ApiServer, account: Path, code: int) -> None:
    server.code = code
    assert not remove_leftover_executors(POD, server.url, account)


def test_an_api_server_that_is_away_is_none_either(account: Path) -> None:
    assert not remove_leftover_executors(POD, "http://127.0.0.1:1", account)


def test_a_pod_without_a_token_is_none_either(server: ApiServer, tmp_path: Path) -> None:
    assert not remove_leftover_executors(POD, server.url, tmp_path)
    assert server.asked == []
