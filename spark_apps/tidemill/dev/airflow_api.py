"""The few calls to Airflow's REST API (v2) that a demo and a test need."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from tidemill.errors import UnavailableError

# Seconds for one answer. The API server answers in milliseconds; on a machine whose cores are all busy
# starting Spark, in seconds.
ANSWER_TIMEOUT_SECONDS = 30

# Seconds before a call is repeated that met another writer. SQLite, on which Airflow standalone is, refuses
# at once a transaction that has read what was changed meanwhile; those of its other parts are short.
BUSY_PAUSES_SECONDS = (0.2, 0.5, 1, 2, 4)

# What Airflow says then; it has changed nothing. Only what may be done twice is repeated.
DATABASE_ERROR = "Database error"
REPEATABLE = ("GET", "PATCH")


@dataclass(frozen=True)
class AirflowApi:
    """One server, and the token of one login."""

    url: str
    token: str
    answer_seconds: float = ANSWER_TIMEOUT_SECONDS

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
        """One call below `/api/v2`; a read or a PATCH is repeated where its database was busy.

        Raises:
            UnavailableError: TIDE-DEV-030, if the server does not answer or says no.
        """
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.url}/api/v2{path}"
        ask = partial(_request, method, url, body, headers, self.answer_seconds)
        for pause in BUSY_PAUSES_SECONDS if method in REPEATABLE else ():
            try:
                return ask()
            except UnavailableError as error:
                if DATABASE_ERROR not in str(error.facts["reason"]):
                    raise
            time.sleep(pause)
        return ask()


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


def _request(
    method: str,
    url: str,
    body: dict[str, Any] | None,
    headers: dict[str, str],
    answer_seconds: float = ANSWER_TIMEOUT_SECONDS,
) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310  # our own http address on the loopback interface
        url,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=answer_seconds) as answer:  # noqa: S310
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
