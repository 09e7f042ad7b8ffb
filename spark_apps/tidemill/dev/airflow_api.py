"""The few calls to Airflow's REST API (v2) that a demo and a test need."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tidemill.errors import UnavailableError

# Seconds for one answer. The API server answers in milliseconds; on a machine whose cores are all busy
# starting Spark, in seconds.
ANSWER_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class AirflowApi:
    """One server, and the token of one login."""

    url: str
    token: str

    def dag_ids(self) -> list[str]:
        """Ids of all DAGs that the server knows."""
        return sorted(dag["dag_id"] for dag in self.call("GET", "/dags?limit=1000")["dags"])

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run by its schedule."""
        self.call("PATCH", f"/dags/{quote(dag_id)}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run now; returns its id."""
        run = self.call("POST", f"/dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "conf": conf or {}})
        return str(run["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run: state, times."""
        return self.call("GET", f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One call below `/api/v2`.

        Raises:
            UnavailableError: TIDE-DEV-030, if the server does not answer or says no.
        """
        return _request(method, f"{self.url}/api/v2{path}", body, {"Authorization": f"Bearer {self.token}"})


def log_in(url: str, user: str, password: str | None) -> AirflowApi:
    """Log in with user and password; without a password where everybody may do all.

    Raises:
        UnavailableError: TIDE-DEV-030, if the server does not answer or says no.
    """
    if password is None:
        answer = _request("GET", f"{url}/auth/token", None, {})
    else:
        answer = _request("POST", f"{url}/auth/token", {"username": user, "password": password}, {})
    return AirflowApi(url, answer["access_token"])


def _request(method: str, url: str, body: dict[str, Any] | None, headers: dict[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310  # our own http address on the loopback interface
        url,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_SECONDS) as answer:  # noqa: S310
            document: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        said = (
            error.read().decode(errors="replace")[:400]
            if isinstance(error, urllib.error.HTTPError)
            else error
        )
        raise UnavailableError(
            "TIDE-DEV-030",
            "Airflow's API does not answer as expected.",
            facts={"call": f"{method} {url}", "reason": said},
            fix="see Airflow's log",
        ) from error
    return document
