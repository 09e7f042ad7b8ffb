"""The few calls of Airflow's REST API (v2) that demo and tests need."""

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

# Seconds for one answer. The API server answers in milliseconds, or in seconds on a machine whose cores are
# all busy starting Spark.
ANSWER_TIMEOUT_SECONDS = 30

# Seconds before a call is repeated after a conflict with another writer. SQLite, the database of Airflow
# standalone, rejects at once a transaction that has read data which was changed since. The other transactions
# are short.
BUSY_PAUSES_SECONDS = (0.2, 0.5, 1, 2, 4)

# Airflow's error in that case, after which nothing has changed. Only repeatable calls are repeated.
DATABASE_ERROR = "Database error"
REPEATABLE = ("GET", "PATCH")


@dataclass(frozen=True)
class AirflowApi:
    """One server, with the token of one login."""

    url: str
    token: str
    answer_seconds: float = ANSWER_TIMEOUT_SECONDS

    def dag_ids(self) -> list[str]:
        """Return the ids of all DAGs that the server knows."""
        return sorted(dag["dag_id"] for dag in self.call("GET", "/dags?limit=1000")["dags"])

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        self.call("PATCH", f"/dags/{quote(dag_id)}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run now and return its id."""
        run = self.call("POST", f"/dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "conf": conf or {}})
        return str(run["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return one run with its state and times."""
        return self.call("GET", f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a path below `/api/v2`; a GET or PATCH is repeated if the database was busy.

        Raises:
            UnavailableError: TIDE-DEV-030, if the server does not answer or rejects the call.
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
    """Log in with user and password; without a password if the server allows everything to everyone.

    Raises:
        UnavailableError: TIDE-DEV-030, if the server does not answer or rejects the login.
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
    request = urllib.request.Request(  # noqa: S310  # the server's http address on the loopback interface
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
