"""The part of an MLflow server's API that its client uses for registered models, over HTTP.

The server itself cannot be among the tests' packages, because MLflow 3.17 with its server needs an older
pyarrow than Tidemill does. `tests/mlflow` has one in a separate environment, and compares these answers with
its answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tidemill.dev.ports import LOOPBACK

_API = "/api/2.0/mlflow/"


@dataclass
class FakeModelRegistry:
    """Answers as the server does; a test registers by changing `versions`, and moves `aliases` and `stages`.

    Args:
        authorization: The required header; None if none is required.
        versions: Folder or URI of each version of a model, version 1 first.
        aliases: Version of each alias, by model and alias.
        stages: Version of each stage, by model and stage.
    """

    authorization: str | None = None
    versions: dict[str, list[Path | str]] = field(default_factory=dict)
    aliases: dict[tuple[str, str], int] = field(default_factory=dict)
    stages: dict[tuple[str, str], int] = field(default_factory=dict)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server's name
                asked = urlsplit(self.path)
                given = {name: values[0] for name, values in parse_qs(asked.query).items()}
                self._answer(asked.path.removeprefix(_API), given)

            def do_POST(self) -> None:  # http.server's name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(self.path.removeprefix(_API), json.loads(body))

            def _answer(self, what: str, given: dict[str, Any]) -> None:
                allowed = registry.authorization in (None, self.headers.get("Authorization"))
                status, told = registry.told(what, given) if allowed else (401, {"message": "Unauthorized"})
                content = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        serve = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def told(self, what: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and document."""
        name = given["name"]
        if name not in self.versions:
            return _error(404, "RESOURCE_DOES_NOT_EXIST", f"Registered Model with name={name} not found")
        if what == "registered-models/alias":
            number = self.aliases.get((name, given["alias"]))
            if number is None:
                message = f"Registered model alias {given['alias']} not found."
                return _error(400, "INVALID_PARAMETER_VALUE", message)
            return 200, {"model_version": {"name": name, "version": str(number)}}
        if what == "registered-models/get-latest-versions":
            numbers = [self.stages[name, stage] for stage in given["stages"] if (name, stage) in self.stages]
            found = [{"name": name, "version": str(number)} for number in numbers]
            return 200, {"model_versions": found} if found else {}
        if what == "registered-models/get":
            return 200, {"registered_model": {"name": name}}
        assert what == "model-versions/get-download-uri", what
        if int(given["version"]) > len(self.versions[name]):
            message = f"Model Version (name={name}, version={given['version']}) not found"
            return _error(404, "RESOURCE_DOES_NOT_EXIST", message)
        place = self.versions[name][int(given["version"]) - 1]
        return 200, {"artifact_uri": place.as_uri() if isinstance(place, Path) else place}


def _error(status: int, code: str, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error_code": code, "message": message}


@contextmanager
def model_registry(**keys: Any) -> Iterator[FakeModelRegistry]:
    """Yield a registry during a `with` block."""
    registry = FakeModelRegistry(**keys)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
