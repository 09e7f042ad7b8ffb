"""Cost of observability per batch, per scrape of a driver, and per scrape of 1,000 pipelines.

The cost of a batch is all the driver's work to report it. The driver records the commit and Spark's progress,
writes the status twice (which the control plane needs anyway), and logs one line. Its share of `query.json`,
written every three seconds, and of a scrape every 15 seconds is added. The baseline is a batch of 200 ms, the
fastest that a tuned stream has.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog

from tests.support.spark_progress import PROGRESS, report_of
from tidemill.checkpoint.query_report import write_query_report
from tidemill.checkpoint.status import Status, write_status
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.driver_metrics import DriverFacts, driver_samples
from tidemill.engine.http_port import serve
from tidemill.engine.query_reporter import LOOK_SECONDS
from tidemill.engine.reporter import Reporter
from tidemill.metrics import exposition
from tidemill.names import Layout, query_name
from tidemill.observe.exporter import Exporter, Watched
from tidemill.sinks.batch_commit import Written
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.project import Environment
from tidemill.spec.project_folder import Project
from tidemill.storage.store import Store

PIPELINES = 1000
PARTITIONS = 100
BATCH_MILLISECONDS = 200.0
SCRAPE_SECONDS = 15.0


def status_of(pipeline: str) -> Status:
    now = datetime.now(UTC)
    return Status(
        pipeline=pipeline,
        mode="stream",
        state="running",
        run_id="r",
        started_at=now,
        updated_at=now,
        lag=5,
        rows_by_output={"bronze/orders": 7},
        caught_up_at=now,
        source_retention_seconds=3600,
    )


def milliseconds(act: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - begun))
    return sorted(taken)


def told(what: str, taken: list[float]) -> float:
    middle = statistics.median(taken)
    print(f"{what}: median {middle:.3f} ms, 99% {taken[int(0.99 * (len(taken) - 1))]:.3f} ms")
    return middle


def of_a_batch(folder: str) -> None:
    latest = {str(number): number for number in range(PARTITIONS)}
    source = {"endOffset": {"orders": dict.fromkeys(latest, 0)}, "latestOffset": {"orders": latest}}
    progress = {**PROGRESS, "name": query_name("orders"), "runId": "q", "sources": [source]}
    store, layout, now = Store(folder), Layout(folder), datetime.now(UTC)
    report = report_of("orders", now, progress)
    facts = DriverFacts(status_of("orders"), now, report)
    scrape = told(
        f"scrape of a driver, {PARTITIONS} partitions",
        milliseconds(lambda: exposition(driver_samples(facts)), 300),
    )
    writing = milliseconds(lambda: write_query_report(store, layout, report), 300)
    kept = told("writing what the query does", writing)
    reporter = Reporter(store, layout.status("orders"), status_of("orders"))
    reporter.query.report = report
    event: Any = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress)))
    result = BatchResult(7, {"bronze/orders": Written(True, 7, 3)}, 0)
    wrote = told("what a batch has written", milliseconds(lambda: reporter.batch(result), 300))
    ended = told("what Spark says of it", milliseconds(lambda: reporter.onQueryProgress(event), 300))
    assert reporter.last_progress == PROGRESS["batchId"]
    regular = (scrape / SCRAPE_SECONDS + kept / LOOK_SECONDS) / 1000
    share = (wrote + ended) / BATCH_MILLISECONDS + regular
    print(f"share of a batch of {BATCH_MILLISECONDS:g} ms: {100 * share:.2f} %")


def of_a_thousand(folder: str) -> None:
    store, layout = Store(folder), Layout(folder)
    for number in range(PIPELINES):
        name = f"p{number}"
        write_status(store, layout.status(name), status_of(name))
        write_query_report(store, layout, report_of(name, datetime.now(UTC)))
    spec = EnvironmentSpec.model_validate({"root": folder, "runtime": "local"})
    here = Path(folder)
    (here / "conf/pipelines").mkdir(parents=True)
    watched = Watched(Environment("bench", here, spec, Project(here)), store)
    exporter = Exporter(watched, timedelta(seconds=15))
    told(f"reading of {PIPELINES} pipelines, in the background", milliseconds(exporter.refresh, 3))
    server = serve(("127.0.0.1", 0), exporter.answer)
    assert server is not None

    def scrape() -> None:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
            answer.read()

    told(f"scrape of {PIPELINES} pipelines", milliseconds(scrape, 200))
    stop = threading.Event()
    reading = threading.Thread(target=lambda: [exporter.refresh() for _ in iter(stop.is_set, True)])
    reading.start()
    told("the same while storage is read without a pause", milliseconds(scrape, 200))
    stop.set()
    reading.join()
    print(f"page: {len(exporter.answer('/metrics').body) / 1e6:.1f} MB")
    server.shutdown()
    server.server_close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(log))
        of_a_batch(folder)
        of_a_thousand(folder)


if __name__ == "__main__":
    main()
