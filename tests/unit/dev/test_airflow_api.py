"""Calls to Airflow's API that meet a database which another process writes to."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import served
from tidemill.airflow_names import DRIVER_POOL
from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.dev import airflow_api
from tidemill.dev.airflow_api import AirflowApi
from tidemill.dev.airflow_standalone import AirflowServer, make_driver_pool
from tidemill.dev.ports import LOOPBACK
from tidemill.errors import UnavailableError

# Response of Airflow 3.3 to any error of its database.
BUSY = {"detail": {"reason": "Database error", "statement": "hidden", "orig_error": "hidden"}}


class BusyServer:
    """Refuses the next changes as Airflow does where SQLite lets another writer in first.

    A pool is made all the same: as where the change was made and the answer lost.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self.calls: list[str] = []
        self.pools: list[dict[str, Any]] = []
        busy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                busy.calls.append(f"{self.command} {self.path}")
                if self.path == "/api/v2/pools":
                    busy.pools.append(json.loads(body))
                busy.refusals -= 1
                refused = busy.refusals >= 0
                self.say(500 if refused else 200, BUSY if refused else {"dag_run_id": "manual"})

            def say(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:  # http.server's name
                self.say(200, {"access_token": "token", "pools": busy.pools})

            def do_PATCH(self) -> None:  # http.server's name
                self.answer()

            def do_POST(self) -> None:  # http.server's name
                self.answer()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server.server_address[1]}"

    @property
    def api(self) -> AirflowApi:
        return AirflowApi(self.url, "token")


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    monkeypatch.setattr(airflow_api, "BUSY_PAUSES_SECONDS", (0, 0, 0))
    server = BusyServer()
    with served(server.server):
        yield server


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


def test_the_pool_of_drivers_is_made_once_though_the_answer_is_lost(busy: BusyServer, tmp_path: Path) -> None:
    busy.refusals = 1
    server = AirflowServer(tmp_path, busy.url, ProcessIdentity.of(os.getpid()))
    make_driver_pool(server, time.monotonic() + 60)
    make_driver_pool(server, time.monotonic() + 60)
    assert [pool["name"] for pool in busy.pools] == [DRIVER_POOL]
    assert busy.calls == ["POST /api/v2/pools"]


def test_a_server_that_has_ended_is_not_asked_again_for_its_pool(busy: BusyServer, tmp_path: Path) -> None:
    busy.refusals = 100
    gone = replace(ProcessIdentity.of(os.getpid()), start_time=0)
    with pytest.raises(UnavailableError) as refused:
        make_driver_pool(AirflowServer(tmp_path, busy.url, gone), time.monotonic() + 60)
    assert refused.value.error_id == "TIDE-DEV-030"
    assert busy.calls == ["POST /api/v2/pools"]
