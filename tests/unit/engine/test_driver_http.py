"""The driver's port, asked over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.scraped import scraped
from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.engine import http_port
from tidemill.engine.driver_http import DriverView, serve
from tidemill.engine.http_port import MOST_REQUESTS, HttpPort

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
STREAM = ("orders", "stream")


class Driver:
    """A driver's own words, changed by the tests."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.status = Status(
            pipeline="orders", mode="stream", state="starting", run_id="r", started_at=NOW, updated_at=NOW
        )
        self.silence = timedelta(0)
        self.query: QueryReport | None = None

    def says(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)


@pytest.fixture(scope="module")
def any_driver() -> Driver:
    return Driver()


@pytest.fixture
def driver(any_driver: Driver) -> Driver:
    any_driver.begin()
    return any_driver


@pytest.fixture(scope="module")
def server(any_driver: Driver) -> Iterator[HttpPort]:
    view = DriverView(
        lambda: any_driver.status, lambda: any_driver.silence, 10 * SECOND, lambda: any_driver.query
    )
    server = serve(("127.0.0.1", 0), view)
    assert server is not None
    yield server
    server.shutdown()
    server.server_close()


def ask(server: HttpPort, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_the_probes_follow_the_driver(server: HttpPort, driver: Driver) -> None:
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 503]
    driver.says(state="running", batch_id=0, batch_committed_at=NOW)
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    driver.silence = timedelta(hours=1)
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [503, 200]


def test_status_is_the_status_file(server: HttpPort, driver: Driver) -> None:
    driver.says(state="running", batch_id=3, lag=12)
    code, body = ask(server, "/status?pretty")
    assert (code, json.loads(body)) == (200, driver.status.model_dump(mode="json"))


def test_the_query_is_shown_in_three_parts_once_there_is_one(server: HttpPort, driver: Driver) -> None:
    assert [ask(server, path) for path in ("/queries", "/progress", "/explain")] == [
        (200, "[]\n"),
        (200, "[]\n"),
        (200, "\n"),
    ]
    driver.query = QueryReport(
        pipeline="orders",
        run_id="r",
        id="i",
        query_run_id="q",
        name="orders",
        started_at=NOW,
        updated_at=NOW,
        recent_progress=({"batchId": 3},),
        explain="== Physical Plan ==",
    )
    (query,) = json.loads(ask(server, "/queries")[1])
    assert (query["id"], query["active"]) == ("i", True)
    assert not {"explain", "recent_progress"} & set(query)
    assert json.loads(ask(server, "/progress")[1]) == [{"batchId": 3}]
    assert ask(server, "/explain") == (200, "== Physical Plan ==\n")


def test_metrics_are_prometheus_text(server: HttpPort, driver: Driver) -> None:
    driver.says(
        batch_id=3,
        batch_milliseconds=1500,
        lag=12,
        rows=40,
        quarantined_rows=2,
        watermark=NOW,
        rows_by_output={"bronze/orders": 38},
    )
    code, body = ask(server, "/metrics")
    values = scraped(body)
    assert code == 200
    assert {name: values[name] for name in values if name[0] != "tidemill_last_sign_timestamp_seconds"} == {
        ("tidemill_batch_id", *STREAM): 3,
        ("tidemill_batches_total", *STREAM): 0,
        ("tidemill_batch_duration_seconds", *STREAM): 1.5,
        ("tidemill_lag_records", *STREAM): 12,
        ("tidemill_rows_total", *STREAM): 40,
        ("tidemill_quarantined_rows_total", *STREAM): 2,
        ("tidemill_late_rows_total", *STREAM): 0,
        ("tidemill_no_event_time_rows_total", *STREAM): 0,
        ("tidemill_watermark_timestamp_seconds", *STREAM): NOW.timestamp(),
        ("tidemill_last_progress_timestamp_seconds", *STREAM): NOW.timestamp(),
        ("tidemill_start_timestamp_seconds", *STREAM): NOW.timestamp(),
        ("tidemill_output_rows_total", *STREAM, "bronze/orders"): 38,
    }
    assert ("tidemill_last_sign_timestamp_seconds", *STREAM) in values


def test_a_driver_that_waits_with_an_error_makes_no_progress_however_alive_it_is(
    server: HttpPort, driver: Driver
) -> None:
    progressed = NOW - timedelta(hours=3)
    driver.says(state="waiting", error={"id": "TIDE-SRC-002"}, progressed_at=progressed)
    values = scraped(ask(server, "/metrics")[1])
    assert values["tidemill_last_progress_timestamp_seconds", *STREAM] == progressed.timestamp()
    assert ask(server, "/healthz")[0] == 200


def test_a_metric_without_a_value_yet_is_left_out(server: HttpPort, driver: Driver) -> None:
    names = {line.partition("{")[0] for line in ask(server, "/metrics")[1].splitlines()}
    assert "tidemill_rows_total" in names
    assert not {"tidemill_lag_records", "tidemill_batch_id", "tidemill_watermark_timestamp_seconds"} & names


def test_labels_are_escaped(server: HttpPort, driver: Driver) -> None:
    driver.says(rows_by_output={'kafka:a"b\\c\nd': 1})
    assert r'output="kafka:a\"b\\c\nd"' in ask(server, "/metrics")[1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_can_be_done_through_the_port(server: HttpPort, method: str) -> None:
    assert ask(server, "/status", method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/stop", "/../status", "/status/"])
def test_other_paths_are_unknown(server: HttpPort, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_clients_that_send_nothing_are_hung_up_on_and_cost_no_more_threads(server: HttpPort) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(server.server_address[:2]) for _ in range(3 * MOST_REQUESTS)]
    # The last one is refused at once, because none of the threads is free.
    silent[-1].settimeout(10)
    assert silent[-1].recv(1) == b""
    assert threading.active_count() - before <= MOST_REQUESTS
    for client in silent:
        client.close()


def test_an_address_that_is_taken_is_no_reason_to_fail(server: HttpPort) -> None:
    assert http_port.serve(("127.0.0.1", server.server_address[1]), server.answer) is None


def test_the_port_keeps_no_process_alive(server: HttpPort) -> None:
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "http-port")
