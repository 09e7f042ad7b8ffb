"""An API server in memory behind HTTP, page by page as a real one, so that its requests can be counted."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from tests.support.api_server import ApiServerInMemory
from tidemill.control.kubernetes.api import Kind

# Where the number of requests is asked for, which is none of them.
REQUESTS = "/requests"


class ApiOverHttp(ThreadingHTTPServer):
    """The namespace `plant`, to be read.

    Args:
        api: The API server whose objects are served.
        answer_seconds: Duration of each response.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, api: ApiServerInMemory, answer_seconds: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self.answer_seconds = answer_seconds
        self.requests = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = cast(ApiOverHttp, self.server)
        address = urlsplit(self.path)
        if address.path == REQUESTS:
            found: Any = server.requests
        else:
            server.requests += 1
            time.sleep(server.answer_seconds)
            found = self._find(server.api, address.path, parse_qs(address.query))
        text = json.dumps(found if found is not None else {"message": "not found"}).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _find(self, api: ApiServerInMemory, path: str, query: dict[str, list[str]]) -> Any:
        group, _, rest = path.partition("/namespaces/plant")
        plural, _, name = rest.strip("/").partition("/")
        if not plural:
            return api.namespace()
        if name:
            return api.get(Kind(group, plural), name)
        labels = dict(each.split("=") for each in query.get("labelSelector", [""])[0].split(",") if each)
        begin, size = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        found = api.list(Kind(group, plural), labels)
        more = {"continue": str(begin + size)} if begin + size < len(found) else {}
        return {"metadata": more, "items": found[begin : begin + size]}

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Log nothing."""
