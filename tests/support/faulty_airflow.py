"""A real Airflow that a test may treat badly: runs deleted, parts that have ended, forms as they are told."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import quote

from tests.support.airflow_server import Airflow
from tests.support.eventually import eventually
from tidemill.observe.airflow_health import ask_airflow

# Seconds for a run whose task is killed and repeated, beside others on the machine: 60 where it is idle.
RUN_TIMEOUT_SECONDS = 420

# Seconds after which a part of Airflow that is not healthy again has ended.
HEALTH_TIMEOUT_SECONDS = 45

PARTS = {"metadatabase", "scheduler", "triggerer", "dag_processor"}


class FaultyAirflow(Airflow):
    """The server, its project and its API."""

    run_timeout_seconds = RUN_TIMEOUT_SECONDS
    # Each look is a request: many a second take the cores from the tasks.
    poll_seconds = 1.0

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """As a person does who thinks that a run is of no use."""
        request = urllib.request.Request(  # our own http address on the loopback interface
            f"{self.api.url}/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}",
            headers={"Authorization": f"Bearer {self.api.token}"},
            method="DELETE",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 204

    def params(self, dag_id: str) -> dict[str, Any]:
        """The fields of a form: default and JSON Schema."""
        return self.api.call("GET", f"/dags/{dag_id}/details")["params"] or {}

    def start_what_has_ended(self) -> None:
        """As whoever supervises Airflow's parts; here all of them are one, and are started together."""
        try:
            eventually(self._is_healthy, "every part is healthy", HEALTH_TIMEOUT_SECONDS, poll_seconds=1)
        except AssertionError:
            self.kill_and_start_again()

    def _is_healthy(self) -> bool:
        return {part.name for part in ask_airflow(self.server.url) if part.healthy} >= PARTS
