"""A real Prometheus scrapes `tidemill metrics serve` over the state folder of streams that go wrong."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.monitoring.test_rules import CASES
from tests.support.eventually import eventually
from tests.support.prometheus import DASHBOARDS, RULES, Prometheus, prometheus
from tests.support.small_project import SmallProject
from tests.support.spark_progress import report_of
from tests.support.stream_requests import AT_ONCE, by_name
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.checkpoint.query_report import write_query_report
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.reconcile_record import keep_record, read_record
from tidemill.control.plane import ControlPlane
from tidemill.dev.ports import free_ports
from tidemill.engine.http_port import Answer, HttpPort, json_answer, serve
from tidemill.observe.exporter import Exporter, Watched

# Seconds for scrapes and evaluations, one a second each, on a busy machine.
TIMEOUT_SECONDS = 60

HOUR = timedelta(hours=1)


@dataclass
class SickStream:
    """The driver of `orders`, whose lag and error counts grow with each report."""

    plane: ControlPlane
    said: int = 0

    def says(self) -> None:
        now = datetime.now(UTC)
        self.said += 1
        status = Status(
            pipeline="orders",
            mode="stream",
            state="running",
            run_id="r",
            started_at=now - 2 * HOUR,
            updated_at=now,
            epoch=3,
            batch_id=7,
            batches=self.said,
            batch_committed_at=now - HOUR,
            progressed_at=now - HOUR,
            caught_up_at=now - 6 * HOUR,
            watermark=now - HOUR,
            batch_milliseconds=20_000,
            rows=100 * self.said,
            rows_by_output={"bronze/orders": self.said},
            quarantined_rows=50 * self.said,
            expectation_violations={"bronze/orders": {"plausible": self.said}},
            lag=1000 * self.said,
            trigger_seconds=10,
            progress_within_seconds=600,
            source_retention_seconds=7 * 3600,
        )
        write_status(self.plane.store, self.plane.layout.status("orders"), status)


def test_every_alert_fires_in_a_real_prometheus_and_every_panel_has_data(
    project: SmallProject, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with prometheus(tmp_path / "prometheus", f"127.0.0.1:{port}") as server:
        until_firing(server, {("TidemillControlPlaneNotSeen", "")})
        plane = trouble(project)
        with exporting(project, port, SickStream(plane)):
            expected = {
                *((name, "orders") for name in CASES if "tidemill-streams" in group_of(name)),
                ("TidemillDataLossNear", "orders"),
                ("TidemillPipelineOnHold", "orders"),
                ("TidemillStreamStalled", "orders"),
                ("TidemillStreamDown", "crashing"),
                ("TidemillStreamHeld", "crashing"),
                ("TidemillRestartBudgetLow", "crashing"),
                ("TidemillStreamRefused", "refusing"),
                ("TidemillReconcileTooOld", ""),
                ("TidemillStorageNotRead", ""),
                ("TidemillAirflowUnhealthy", "scheduler"),
            }
            assert {name for name, _ in expected} == set(CASES) - {"TidemillControlPlaneNotSeen"}
            until_firing(server, expected)
            assert ("TidemillControlPlaneNotSeen", "") not in server.firing()
            assert ("TidemillStreamDown", "orders") not in server.firing()
            assert [name for name, expression in queries() if not server.query(expression)] == []


def trouble(project: SmallProject) -> ControlPlane:
    """Return a control plane with a stream held after crashes, a refused one, and one held by an operator."""
    for name, behaviour in {"orders": "run", "crashing": "crash", "refusing": "exit 64"}.items():
        project.declare(name)
        project.behave(name, behaviour)
    plane = project.plane()

    def visit() -> bool:
        return by_name(reconcile_streams(plane, AT_ONCE)) == {
            "orders": "leave",
            "crashing": "hold",
            "refusing": "refused",
        }

    eventually(visit, "one stream is held, one refused", TIMEOUT_SECONDS, poll_seconds=0.3)
    assert take_hold(plane.store, plane.layout, "orders", Hold(id="h", by="ann", why="the broker moves"))
    write_query_report(plane.store, plane.layout, report_of("orders", datetime.now(UTC)))
    plane.store.write(plane.layout.status("refusing"), b"{")
    # An hour later, no reconciliation has run since, and the driver has made no progress.
    record = read_record(plane.store, plane.layout)
    assert record is not None
    stalled = record.streams["orders"].model_copy(update={"stalled": True})
    ended_at = record.ended_at - HOUR
    streams = {**record.streams, "orders": stalled}
    keep_record(
        plane.store, plane.layout, record.model_copy(update={"ended_at": ended_at, "streams": streams})
    )
    # The fake driver's own metrics would replace the test's metrics.
    driver = plane.running("orders")
    assert driver is not None
    plane.runtime.kill(driver)
    return plane


@contextmanager
def exporting(project: SmallProject, port: int, sick: SickStream) -> Iterator[None]:
    """Serve the exporter for a stream that gets worse and an unhealthy Airflow; a thread refreshes it."""
    with listening(0, lambda _: json_answer(airflow_health())) as airflow:
        exporter = Exporter(Watched(project.environment, sick.plane.store, airflow.url), HOUR)
        stop = threading.Event()

        def get_worse() -> None:
            while not stop.wait(0.5):
                sick.says()
                exporter.refresh()

        thread = threading.Thread(target=get_worse)
        thread.start()
        try:
            with listening(port, exporter.answer):
                yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def listening(port: int, answer: Callable[[str], Answer]) -> Iterator[HttpPort]:
    server = serve(("127.0.0.1", port), answer)
    assert server is not None
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def airflow_health() -> dict[str, dict[str, str]]:
    """Return Airflow 3.3's health answer for a silent scheduler."""
    silent = {"status": "unhealthy", "latest_scheduler_heartbeat": datetime.now(UTC).isoformat()}
    return {"metadatabase": {"status": "healthy"}, "scheduler": silent}


def until_firing(server: Prometheus, expected: set[tuple[str, str]]) -> None:
    missing: set[tuple[str, str]] = set()

    def all_fire() -> bool:
        missing.clear()
        missing.update(expected - server.firing())
        return not missing

    try:
        eventually(all_fire, "all alerts fire", TIMEOUT_SECONDS, poll_seconds=0.5)
    except AssertionError as error:
        raise AssertionError(f"these do not fire: {sorted(missing)}") from error


def group_of(alert: str) -> str:
    """Return the group of an alert's rule."""
    (file,) = [
        file for file in RULES.glob("*.yaml") if re.search(rf"alert: {alert}$", file.read_text(), re.M)
    ]
    return f"tidemill-{file.stem}"


def queries() -> Iterator[tuple[str, str]]:
    """Return each query of each dashboard, for the pipeline `orders`, as Grafana would send it."""
    for file in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$pipeline", "orders")
                yield f"{file.stem}: {panel['title']}: {expression}", expression
