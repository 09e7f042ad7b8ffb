"""The driver's read-only HTTP port: probes, status, metrics and its query.

A daemon thread serves it from the reporter's memory. It reads no storage and calls neither Spark nor the
broker. It cannot fail or delay the stream, and ends with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.status import Status
from tidemill.engine import http_port
from tidemill.engine.driver_metrics import DriverFacts, driver_samples
from tidemill.engine.http_port import Answer, HttpPort, json_answer, text_answer
from tidemill.engine.liveness import Probe, alive, ready
from tidemill.metrics import CONTENT_TYPE, exposition
from tidemill.names import MEMORY_PATH
from tidemill.sinks.memory_sink import MemoryTable

PATHS = "/healthz, /readyz, /status, /metrics, /queries, /progress, /explain and /memory/NAME"


@dataclass(frozen=True)
class DriverView:
    """The data of a driver that the port shows.

    Args:
        status: Returns the newest status.
        silence: Returns the time since the last sign of life.
        trigger: A stream's trigger; None for a bounded run.
        query: Returns the newest report of the query; None before the first one, and in a backfill.
        memory: Returns a table in memory by its name.
    """

    status: Callable[[], Status]
    silence: Callable[[], timedelta]
    trigger: timedelta | None
    query: Callable[[], QueryReport | None] = lambda: None
    memory: Callable[[str], MemoryTable | None] = lambda _: None


def answer(path: str, view: DriverView) -> Answer:
    """Return the answer for a path."""
    status, silence = view.status(), view.silence()
    if path == "/healthz":
        return _probe(alive(status.state, silence, view.trigger))
    if path == "/readyz":
        return _probe(ready(status))
    if path == "/status":
        return json_answer(status.model_dump(mode="json"))
    if path == "/metrics":
        facts = DriverFacts(status, datetime.now(UTC) - silence, view.query())
        return Answer(200, CONTENT_TYPE, exposition(driver_samples(facts)))
    if path.startswith(MEMORY_PATH):
        return _table(view.memory(path.removeprefix(MEMORY_PATH)))
    report = view.query()
    if path == "/queries":
        return json_answer([] if report is None else [report.summary()])
    if path == "/progress":
        return json_answer([] if report is None else list(report.recent_progress))
    if path == "/explain":
        return text_answer(200, "" if report is None else report.explain)
    return text_answer(404, f"there are {PATHS}")


def _table(table: MemoryTable | None) -> Answer:
    if table is None:
        return text_answer(404, "there is no such table in memory")
    return Answer(200, "application/vnd.apache.arrow.stream", table.stream())


def _probe(verdict: Probe) -> Answer:
    return text_answer(200 if verdict.good else 503, verdict.reason)


def serve(address: tuple[str, int], view: DriverView) -> HttpPort | None:
    """Serve in a daemon thread; if the address is not available, log that and return None."""
    return http_port.serve(address, lambda path: answer(path, view))
