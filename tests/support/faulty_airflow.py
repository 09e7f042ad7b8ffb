"""A real Airflow with injected faults: deleted DAGs, ended parts, and forms with any values."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from typing import Any

import psutil

from tests.support.airflow_server import Airflow
from tests.support.eventually import eventually
from tests.support.small_project import SmallProject
from tidemill.control.local.process_identity import ProcessIdentity, start_detached
from tidemill.control.local.process_session import kill_session
from tidemill.dev.airflow_standalone import AirflowConfig
from tidemill.dev.airflow_variables import HOME_VARIABLE
from tidemill.observe.airflow_health import ask_airflow

# Seconds for a run whose task is killed and repeated: 60 on an idle machine, more on a busy one.
RUN_TIMEOUT_SECONDS = 420

# Seconds after which a part of Airflow that is not healthy again has ended.
HEALTH_TIMEOUT_SECONDS = 45

PARTS = {"metadatabase", "scheduler", "triggerer", "dag_processor"}


class FaultyAirflow(Airflow):
    """The server, its project and its API."""

    run_timeout_seconds = RUN_TIMEOUT_SECONDS
    # Each check is a request. Many per second would take CPU time from the tasks.
    poll_seconds = 1.0

    def __init__(self, config: AirflowConfig, project: SmallProject) -> None:
        super().__init__(config, project)
        self._started_parts: list[ProcessIdentity] = []

    def delete_dag(self, dag_id: str) -> None:
        """Delete a DAG with all its runs, as a user does; its file brings it back. A waiting run alone cannot
        be deleted, because Airflow answers 409."""
        request = urllib.request.Request(  # our own http address on the loopback interface
            f"{self.api.url}/api/v2/dags/{dag_id}",
            headers={"Authorization": f"Bearer {self.api.token}"},
            method="DELETE",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 204
        eventually(lambda: dag_id in self.api.dag_ids(), f"{dag_id} is back", RUN_TIMEOUT_SECONDS)

    def params(self, dag_id: str) -> dict[str, Any]:
        """Return the fields of a form, with default and JSON Schema."""
        return self.api.call("GET", f"/dags/{dag_id}/details")["params"] or {}

    def events_of(self, table: str, mode: str) -> list[dict[str, Any]]:
        """Return the events of one mode of a table's asset, oldest first."""
        (asset,) = self.api.call("GET", f"/assets?name_pattern={table}")["assets"]
        path = f"/assets/events?asset_id={asset['id']}&order_by=timestamp&limit=100"
        events = [event["extra"] for event in self.api.call("GET", path)["asset_events"]]
        return [extra for extra in events if extra.get("mode") == mode]

    def kill_part_and_start_again(self, part: str) -> None:
        """Kill a process of it with its children, as a container that is lost, and start another one.

        Args:
            part: Name of the component on Airflow's command line.
        """
        parts = psutil.Process(self.server.identity.pid).children()
        # The API server calls itself otherwise by now, and has written that over its variables.
        killed = next(each for each in parts if part in " ".join(each.cmdline()).replace("_", "-"))
        other = next(each for each in parts if each != killed and HOME_VARIABLE in each.environ())
        command, variables = [*other.cmdline()[:2], part], other.environ()
        _kill_with_children(killed)
        log = self.server.home / f"{part}.log"
        self._started_parts.append(start_detached(command, log, variables))
        eventually(self._is_healthy, f"{part} is back", RUN_TIMEOUT_SECONDS, poll_seconds=1)

    def end_started_parts(self) -> None:
        """End the processes that took the place of others."""
        for identity in self._started_parts:
            kill_session(identity)
            identity.reap()
        self._started_parts.clear()

    def start_what_has_ended(self) -> None:
        """Start ended parts again, as a supervisor would.

        Here all parts are one process, so they start together.
        """
        try:
            eventually(self._is_healthy, "every part is healthy", HEALTH_TIMEOUT_SECONDS, poll_seconds=1)
        except AssertionError:
            self.kill_and_start_again()

    def _is_healthy(self) -> bool:
        return {part.name for part in ask_airflow(self.server.url) if part.healthy} >= PARTS


def _kill_with_children(process: psutil.Process) -> None:
    """Kill a process with its children. Its parent may never collect it, so it may stay as a zombie."""
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    eventually(lambda: not _is_alive(process), f"{process} has ended")


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
