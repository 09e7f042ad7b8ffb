"""A schema registry's REST API over HTTP, as Confluent documents it: subjects, versions, ids, references."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import descriptor_pb2

from tests.support.certificates import Certificates
from tests.support.protobuf_schemas import PROTOC_MADE
from tidemill.dev.ports import LOOPBACK

_VERSION = re.compile(r"/subjects/([^/]+)/versions/(\d+)")
_ID = re.compile(r"/schemas/ids/(\d+)")


@dataclass
class FakeRegistry:
    """Answers GET as a registry does; a test registers by calling `register`.

    Args:
        authorization: The required header; None if none is required.
        answer: Status and body for every request in place of the registry's answer, such as a proxy's.
        certificates: Certificates for TLS.
    """

    authorization: str | None = None
    answer: tuple[int, bytes] | None = None
    certificates: Certificates | None = None
    asked: list[str] = field(default_factory=list)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    _server: ThreadingHTTPServer | None = None

    def register(self, number: int, schema: Any, subject: str = "orders-value", **keys: Any) -> int:
        """Register a schema under a number; returns its version.

        Args:
            number: Id of the schema.
            schema: Avro's JSON, or a `FileDescriptorProto`.
            subject: Subject of the schema.
            keys: More of the answer, such as `references`.
        """
        if hasattr(schema, "SerializeToString"):
            text = base64.b64encode(schema.SerializeToString()).decode()
            keys = {"schemaType": "PROTOBUF", **keys}
        else:
            text = json.dumps(schema)
        version = 1 + sum(known == subject for known, _ in self.versions)
        self.schemas[number] = {"schema": text, **keys}
        self.versions[subject, version] = number
        return version

    def register_types(self) -> int:
        """Return the message of all types that protoc compiled as 7, with the file that it imports as 3."""
        made = descriptor_pb2.FileDescriptorSet.FromString((PROTOC_MADE / "types.desc").read_bytes())
        files = {file.name: file for file in made.file}
        self.register(3, files["place.proto"], "place")
        place = {"name": "place.proto", "subject": "place", "version": 1}
        return self.register(7, files["types.proto"], references=[place])

    @property
    def url(self) -> str:
        assert self._server is not None
        scheme = "http" if self.certificates is None else "https"
        return f"{scheme}://{LOOPBACK}:{self._server.server_address[1]}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server's name
                registry.asked.append(self.path)
                status, body = registry.answer or registry.told(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        if self.certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificates.certificate, self.certificates.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        serve = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def told(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        """Return status and body."""
        if self.authorization is not None and authorization != self.authorization:
            return _error(401, 401, "Unauthorized")
        path, _, query = path.partition("?")
        number: int | None = None
        if found := _ID.fullmatch(path):
            number = int(found[1])
            if number not in self.schemas:
                return _error(404, 40403, f"Schema {number} not found")
        elif found := _VERSION.fullmatch(path):
            number = self.versions.get((found[1], int(found[2])))
            if number is None:
                return _error(404, 40401, f"Subject '{found[1]}' not found.")
        if number is None:
            return _error(404, 404, "HTTP 404 Not Found")
        schema = dict(self.schemas[number])
        if schema.get("schemaType") == "PROTOBUF" and query != "format=serialized":
            schema["schema"] = 'syntax = "proto3"; ...'
        return 200, json.dumps(schema).encode()


def _error(status: int, code: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "message": message}).encode()


@contextmanager
def schema_registry(**keys: Any) -> Iterator[FakeRegistry]:
    """Yield a registry during a `with` block."""
    registry = FakeRegistry(**keys)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
