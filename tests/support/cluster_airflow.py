"""Airflow in the cluster as a user meets it: a port-forward, a login, its REST API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.support.cluster import Cluster, until
from tests.support.port_forward import PortForward, fetched
from tidemill.dev.airflow_api import AirflowApi, log_in
from tidemill.errors import UnavailableError

# Seconds for the API to answer: the server may have been replaced by an upgrade a moment ago.
ANSWER_TIMEOUT_SECONDS = 300

# Seconds for one DAG run with a driver in it: scheduling, pods, Spark's start and a first batch on two cores.
RUN_TIMEOUT_SECONDS = 600

# Port of the API server in its pod, and of its Service.
API_PORT = 8080

# Characters of a task's log shown with a run that does not end.
SHOWN_CHARACTERS = 3_000

ENDED = ("success", "failed")


class ClusterAirflow:
    """The API; survives the replacement of its server.

    Args:
        cluster: The namespace.
        service: Service of the API server.
        login: Kubernetes Secret whose key `admin-password` is the password.
        user: User who logs in.
    """

    def __init__(self, cluster: Cluster, service: str, login: str, user: str) -> None:
        self._cluster = cluster
        self._service = service
        self._login = login
        self._user = user
        self._forward: PortForward | None = None
        self._api: AirflowApi | None = None

    def close(self) -> None:
        """End the port-forward."""
        self._api = None
        if self._forward is not None:
            self._forward.close()
            self._forward = None

    def wait_until_it_answers(self) -> None:
        until(self._answers, "Airflow's API answers", ANSWER_TIMEOUT_SECONDS)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make one call below `/api/v2`; wait for a server that is being replaced."""
        if self._api is None or not self._answers():
            self.wait_until_it_answers()
        assert self._api is not None
        return self._api.call(method, path, body)

    def page(self, path: str, with_login: bool = True) -> tuple[int, str]:
        """Return code and text of the server's answer to a path, with or without a login."""
        if self._api is None or not self._answers():
            self.wait_until_it_answers()
        assert self._api is not None
        token = {"Authorization": f"Bearer {self._api.token}"} if with_login else {}
        return fetched(f"{self._api.url}{path}", token)

    def begin(self, dag_id: str, params: dict[str, Any] | None = None) -> str:
        """Trigger a run as a user with the form does, and return its id."""
        until(lambda: self._knows(dag_id), f"{dag_id} is parsed", ANSWER_TIMEOUT_SECONDS)
        self.unpause(dag_id)
        run = self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": params or {}})
        return str(run["dag_run_id"])

    def unpause(self, dag_id: str, is_paused: bool = False) -> None:
        """Let a DAG run, or pause it."""
        until(lambda: self._knows(dag_id), f"{dag_id} is parsed", ANSWER_TIMEOUT_SECONDS)
        self.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": is_paused})

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, newest first."""
        found: list[dict[str, Any]] = self.call("GET", f"/dags/{dag_id}/dagRuns?order_by=-run_after")[
            "dag_runs"
        ]
        return found

    def end(self, dag_id: str, run_id: str, timeout_seconds: float = RUN_TIMEOUT_SECONDS) -> str:
        """Wait for the end of a run; its state."""

        def ended() -> str | None:
            state = self.call("GET", _path(dag_id, run_id))["state"]
            return state if state in ENDED else None

        try:
            state = until(ended, f"{dag_id} {run_id} ends", timeout_seconds)
        except AssertionError as error:
            for task in self.tasks(dag_id, run_id):
                log = self.log_of(dag_id, run_id, task["task_id"])[-SHOWN_CHARACTERS:]
                error.add_note(f"{task['task_id']} is {task['state']}: {log}")
            raise
        assert state is not None
        return state

    def run(self, dag_id: str, params: dict[str, Any] | None = None) -> tuple[str, str]:
        """Trigger a run and wait for its end; its id and state."""
        run_id = self.begin(dag_id, params)
        return run_id, self.end(dag_id, run_id)

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"{_path(dag_id, run_id)}/taskInstances")[
            "task_instances"
        ]
        return found

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        path = f"{_path(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/return_value?deserialize=true"
        return self.call("GET", path)["value"]

    def log_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the log of all tries of a task."""
        task = f"{_path(dag_id, run_id)}/taskInstances/{task_id}"
        # The numbers need not begin at 1: Airflow counts a deferred task again.
        tries = [each["try_number"] for each in self.call("GET", f"{task}/tries")["task_instances"]]
        return "\n".join(str(self.call("GET", f"{task}/logs/{number}")) for number in sorted(tries))

    def clear(self, dag_id: str, run_id: str) -> None:
        """Run all tasks of a run again."""
        self.call("POST", f"{_path(dag_id, run_id)}/clear", {"dry_run": False})

    def _knows(self, dag_id: str) -> bool:
        return any(dag["dag_id"] == dag_id for dag in self.call("GET", "/dags?limit=1000")["dags"])

    def _answers(self) -> bool:
        try:
            if self._api is None:
                self._api = self._log_in()
            self._api.call("GET", "/version")
        except (UnavailableError, AssertionError):
            self.close()
            return False
        return True

    def _log_in(self) -> AirflowApi:
        password = self._cluster.secret(self._login)["admin-password"]
        self._forward = PortForward(self._cluster, f"service/{self._service}", API_PORT)
        return log_in(self._forward.url, self._user, password)


def _path(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
