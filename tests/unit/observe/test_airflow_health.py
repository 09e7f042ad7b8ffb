"""Airflow's health report of its components."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from threading import Thread

import pytest

from tidemill.observe.airflow_health import ComponentHealth, ask_airflow, components_of

BEAT = "2026-11-22T12:00:00+00:00"


def test_components_are_told_with_their_heartbeats_and_missing_ones_left_out() -> None:
    answer = {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": BEAT},
        "triggerer": {"status": None, "latest_triggerer_heartbeat": None},
        "dag_processor": None,
    }
    assert components_of(answer) == [
        ComponentHealth("scheduler", False, datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ComponentHealth("metadatabase", True),
    ]


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n\r\n{",
        b'HTTP/1.1 200 OK\r\n\r\n{"scheduler": {"status": "healthy", "latest_scheduler_heartbeat": 5}}',
    ],
    ids=["no HTTP", "cut short", "a list", "half a document", "a number for a time"],
)
def test_an_api_server_that_answers_nonsense_is_ill(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(65_536)
                caller.sendall(said)

        answering = Thread(target=answer)
        answering.start()
        found = ask_airflow(f"http://127.0.0.1:{server.getsockname()[1]}")
        answering.join()
    assert found == (ComponentHealth("api_server", False),)
