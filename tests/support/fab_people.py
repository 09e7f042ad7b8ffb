"""Users and roles of FAB, Airflow's login in production, made as an administrator makes them.

Run as a program in Airflow's environment, it creates the users and roles that it reads from its input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from tidemill.dev.airflow_api import log_in

FAB = {"AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"}

PASSWORD = "tests-only"

# Seconds for an answer of a server on a machine whose cores are busy.
ANSWER_SECONDS = 60


@dataclass(frozen=True)
class People:
    """Users and roles of Airflow's FAB.

    Args:
        roles: Permissions of custom roles: action and resource, in FAB's words.
        users: Roles of each user.
    """

    roles: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def make(self, environment: Mapping[str, str]) -> None:
        """Make them in the database of the Airflow with this environment."""
        document = json.dumps(asdict(self))
        run_in_airflow(environment, "-m", "tests.support.fab_people", given=document)


@dataclass(frozen=True)
class Login:
    """A user with or without a login to Airflow's server."""

    url: str
    token: str | None

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Return code and text of the answer to a GET, or to a POST with a body."""
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return int(answer.status), answer.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()

    def page(self, path: str) -> tuple[int, str]:
        """Return an answer of the Streams page's API."""
        return self.ask(f"/tidemill/api{path}")

    def seen(self, path: str) -> Any:
        """Return the document that the Streams page's API answers with."""
        code, text = self.page(path)
        assert code == 200, f"{path}: {code} {text}"
        return json.loads(text)

    def run(self, dag_id: str, conf: Mapping[str, Any]) -> int:
        """Request a run, and return the code of the answer of Airflow's own API."""
        wish = {"logical_date": None, "conf": dict(conf)}
        return self.ask(f"/api/v2/dags/{quote(dag_id)}/dagRuns", wish)[0]


def login_of(url: str, user: str | None) -> Login:
    """Log in by user and password; without a user, return a Login without a token."""
    return Login(url, None if user is None else log_in(url, user, PASSWORD).token)


def run_in_airflow(environment: Mapping[str, str], *arguments: str, given: str = "") -> None:
    """Run Python where Airflow's commands work."""
    subprocess.run(
        [sys.executable, *arguments],
        env=dict(environment),
        input=given.encode(),
        check=True,
        capture_output=True,
        timeout=120,
    )


def main() -> None:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    wanted = json.load(sys.stdin)
    with get_application_builder() as builder:
        for name, permissions in wanted["roles"].items():
            role = builder.sm.add_role(name)
            for action, resource in permissions:
                builder.sm.add_permission_to_role(role, builder.sm.create_permission(action, resource))
        for user, names in wanted["users"].items():
            roles = [builder.sm.find_role(name) for name in names]
            assert None not in roles, names
            assert builder.sm.add_user(user, user, user, f"{user}@localhost", roles, PASSWORD)


if __name__ == "__main__":
    main()
