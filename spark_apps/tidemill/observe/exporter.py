"""`tidemill metrics serve`: one scrape target for a whole environment.

A thread reads storage periodically and keeps the page. A scrape is answered from memory, so it does not
depend on the number of pipelines or the speed of the storage.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from tidemill.engine.http_port import Answer, text_answer
from tidemill.metrics import CONTENT_TYPE, exposition
from tidemill.observe.airflow_health import ask_airflow
from tidemill.observe.control_metrics import (
    airflow_samples,
    control_samples,
    local_driver_samples,
    without_removed,
)
from tidemill.observe.snapshot import Snapshot, read_pipelines, read_reconciliation
from tidemill.spec.project import Environment
from tidemill.storage.store import Store

# Number of missed refreshes before `/healthz` fails.
MISSED_REFRESHES = 5

log = structlog.get_logger()


@dataclass(frozen=True)
class Watched:
    """The monitored environment.

    Args:
        environment: The environment, with its storage and declared pipelines.
        store: That storage.
        airflow_url: Airflow's API server; empty if it is not monitored.
    """

    environment: Environment
    store: Store
    airflow_url: str = ""

    def page(self) -> str:
        """Return everything as Prometheus text, read once.

        Drivers on Kubernetes have metrics ports, which are scraped. Local drivers have none.
        """
        layout, is_local = self.environment.layout, self.environment.spec.runtime == "local"
        began_at = datetime.now(UTC)
        pipelines = read_pipelines(self.store, layout, with_queries=is_local)
        reconciliation = read_reconciliation(self.store, layout)
        declared = self.environment.project.pipeline_names()
        snapshot = Snapshot(began_at, datetime.now(UTC), pipelines, reconciliation)
        snapshot = without_removed(snapshot, frozenset(declared))
        samples = [*control_samples(snapshot)]
        if is_local:
            samples += local_driver_samples(snapshot)
        if self.airflow_url:
            samples += airflow_samples(ask_airflow(self.airflow_url))
        return exposition(samples)


class Exporter:
    """Keeps the newest page.

    Args:
        watched: The monitored environment.
        refresh: Time between the end of one read and the begin of the next.
    """

    def __init__(self, watched: Watched, refresh: timedelta) -> None:
        self._watched = watched
        self._refresh = refresh
        self._page: str | None = None
        # On the monotonic clock.
        self._read_at = time.monotonic()

    def refresh(self) -> None:
        """Read everything once; after an error the old page stays, which contains its age."""
        try:
            self._page = self._watched.page()
            self._read_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  # the old page is served until storage recovers
            log.warning("snapshot_failed", reason=f"{type(error).__name__}: {error}")

    def refresh_until(self, stop: threading.Event) -> None:
        """Read periodically until `stop` is set."""
        while not stop.is_set():
            self.refresh()
            stop.wait(self._refresh.total_seconds())

    def answer(self, path: str) -> Answer:
        """Return the answer for a path."""
        if path == "/metrics":
            page = self._page
            if page is None:
                return text_answer(503, "nothing was read yet")
            return Answer(200, CONTENT_TYPE, page)
        if path == "/healthz":
            silent = time.monotonic() - self._read_at
            good = silent <= MISSED_REFRESHES * max(1.0, self._refresh.total_seconds())
            return text_answer(200 if good else 503, f"storage was read {silent:.0f} s ago")
        return text_answer(404, "there are /metrics and /healthz")
