"""Calls to Airflow's API that meet a database which another process writes to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tidemill.dev import airflow_api
from tidemill.dev.airflow_api import AirflowApi
from tidemill.dev.ports import LOOPBACK
from tidemill.errors import UnavailableError

# As Airflow 3.3 answers for any error of its database.
BUSY = {"detail": {"reason": "Database error", "statement": "hidden", "orig_error": "hidden"}}


class BusyServer:
    """Refuses the next calls as Airflow does where SQLite lets another writer in first."""

    def __init__(self) -> None:
        self.refusals = 0
        self.calls: list[str] = []
        busy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                busy.calls.append(f"{self.command} {self.path}")
                busy.refusals -= 1
                refused = busy.refusals >= 0
                body = json.dumps(BUSY if refused else {"dag_run_id": "manual"}).encode()
                self.send_response(500 if refused else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PATCH(self) -> None:  # http.server's name
                self.answer()

            def do_POST(self) -> None:  # http.server's name
                self.answer()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @property
    def api(self) -> AirflowApi:
        return AirflowApi(f"http://{LOOPBACK}:{self.server.server_address[1]}", "token")


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    monkeypatch.setattr(airflow_api, "BUSY_PAUSES_SECONDS", (0, 0, 0))
    server = BusyServer()
    serving = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield server
    server.server.shutdown()
    serving.join()
    server.server.server_close()


def test_a_change_that_met_another_writer_is_asked_for_again(busy: BusyServer) -> None:
    busy.refusals = 3
    busy.api.unpause("stream__orders")
    assert busy.calls == ["PATCH /api/v2/dags/stream__orders?update_mask=is_paused"] * 4


def test_a_database_that_stays_busy_is_told(busy: BusyServer) -> None:
    busy.refusals = 100
    with pytest.raises(UnavailableError) as refused:
        busy.api.unpause("stream__orders")
    assert refused.value.error_id == "TIDE-DEV-030"
    assert "Database error" in str(refused.value.facts["reason"])
    assert len(busy.calls) == 4


def test_a_run_is_triggered_once_whatever_is_answered(busy: BusyServer) -> None:
    busy.refusals = 1
    with pytest.raises(UnavailableError):
        busy.api.trigger("stream__orders")
    assert busy.calls == ["POST /api/v2/dags/stream__orders/dagRuns"]
    assert busy.api.trigger("stream__orders") == "manual"
