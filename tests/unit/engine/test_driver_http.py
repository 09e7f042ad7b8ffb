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

from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.engine.driver_http import MOST_REQUESTS, DriverHttp, DriverView, serve

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


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
def server(any_driver: Driver) -> Iterator[DriverHttp]:
    view = DriverView(
        lambda: any_driver.status, lambda: any_driver.silence, 10 * SECOND, lambda: any_driver.query
    )
    server = serve(("127.0.0.1", 0), view)
    assert server is not None
    yield server
    server.shutdown()
    server.server_close()


def ask(server: DriverHttp, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_the_probes_follow_the_driver(server: DriverHttp, driver: Driver) -> None:
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 503]
    driver.says(state="running", batch_id=0, batch_committed_at=NOW)
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    driver.silence = timedelta(hours=1)
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [503, 200]


def test_status_is_the_status_file(server: DriverHttp, driver: Driver) -> None:
    driver.says(state="running", batch_id=3, lag=12)
    code, body = ask(server, "/status?pretty")
    assert (code, json.loads(body)) == (200, driver.status.model_dump(mode="json"))


def test_the_query_is_shown_in_three_parts_once_there_is_one(server: DriverHttp, driver: Driver) -> None:
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


def test_metrics_are_prometheus_text(server: DriverHttp, driver: Driver) -> None:
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
    labels = '{pipeline="orders",mode="stream"}'
    lines = body.splitlines()
    assert code == 200
    assert {
        f"tidemill_batch_id{labels} 3",
        f"tidemill_batch_duration_seconds{labels} 1.5",
        f"tidemill_lag_records{labels} 12",
        f"tidemill_rows_total{labels} 40",
        f"tidemill_quarantined_rows_total{labels} 2",
        f"tidemill_watermark_timestamp_seconds{labels} {NOW.timestamp()}",
        'tidemill_output_rows_total{pipeline="orders",mode="stream",output="bronze/orders"} 38',
    } <= set(lines)
    assert f"tidemill_last_progress_timestamp_seconds{labels} {NOW.timestamp()}" in lines
    assert [line for line in lines if line.startswith("tidemill_last_sign_timestamp_seconds")]
    kinds = [line.split()[3] for line in lines if line.startswith("# TYPE")]
    assert set(kinds) == {"gauge", "counter"}


def test_a_driver_that_waits_with_an_error_makes_no_progress_however_alive_it_is(
    server: DriverHttp, driver: Driver
) -> None:
    progressed = NOW - timedelta(hours=3)
    driver.says(state="waiting", error={"id": "TIDE-SRC-002"}, progressed_at=progressed)
    lines = ask(server, "/metrics")[1].splitlines()
    labels = '{pipeline="orders",mode="stream"}'
    assert f"tidemill_last_progress_timestamp_seconds{labels} {progressed.timestamp()}" in lines
    assert ask(server, "/healthz")[0] == 200


def test_a_metric_without_a_value_yet_is_left_out(server: DriverHttp, driver: Driver) -> None:
    names = {line.partition("{")[0] for line in ask(server, "/metrics")[1].splitlines()}
    assert "tidemill_rows_total" in names
    assert not {"tidemill_lag_records", "tidemill_batch_id", "tidemill_watermark_timestamp_seconds"} & names


def test_labels_are_escaped(server: DriverHttp, driver: Driver) -> None:
    driver.says(rows_by_output={'kafka:a"b\\c\nd': 1})
    assert r'output="kafka:a\"b\\c\nd"' in ask(server, "/metrics")[1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_can_be_done_through_the_port(server: DriverHttp, method: str) -> None:
    assert ask(server, "/status", method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/stop", "/../status", "/status/"])
def test_other_paths_are_unknown(server: DriverHttp, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_clients_that_send_nothing_are_hung_up_on_and_cost_no_more_threads(server: DriverHttp) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(server.server_address[:2]) for _ in range(3 * MOST_REQUESTS)]
    # The last one is refused at once, because none of the threads is free.
    silent[-1].settimeout(10)
    assert silent[-1].recv(1) == b""
    assert threading.active_count() - before <= MOST_REQUESTS
    for client in silent:
        client.close()


def test_an_address_that_is_taken_is_no_reason_to_fail(server: DriverHttp) -> None:
    assert serve(("127.0.0.1", server.server_address[1]), server.view) is None


def test_the_port_keeps_no_process_alive(server: DriverHttp) -> None:
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "driver-http")
