"""The Streams page's API with Airflow's own login and roles, over a small project; no Airflow is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.small_project import SmallProject, small_project

# Variables that Airflow reads at its import.
SETTINGS = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # PyJWT warns of a key that is shorter than the digest of its algorithm.
    "AIRFLOW__API_AUTH__JWT_SECRET": "tests-only-" + "s" * 64,
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
}


class StreamsPage:
    """Page, project and people."""

    def __init__(self, project: SmallProject) -> None:
        from airflow.api_fastapi.app import create_auth_manager
        from fastapi.testclient import TestClient

        from tidemill_airflow.place import Place
        from tidemill_airflow.plugin.app import streams_app
        from tidemill_airflow.plugin.snapshot import Snapshot

        _make_tables()
        self.project = project
        place = Place(str(project.folder), "local")
        self.snapshot = Snapshot(lambda: place, lambda _: project.plane())
        self.app = streams_app(self.snapshot)
        self._client = TestClient(self.app)
        self._manager: Any = create_auth_manager()
        self._manager.init()

    def get(self, path: str, role: str | None = "ADMIN") -> Any:
        """Return the answer to a user with one of Airflow's roles, or without a login."""
        return self._client.get(path, headers={} if role is None else self.login(role))

    def look(self) -> None:
        """Refresh the page's data now, as the server does every few seconds."""
        assert self.snapshot.refresh().problem == ""

    def login(self, role: str) -> dict[str, str]:
        """Return the headers of a user with one of Airflow's roles."""
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        token = self._manager.generate_jwt(SimpleAuthManagerUser(username=role.lower(), role=role))
        return {"Authorization": f"Bearer {token}"}


def _make_tables() -> None:
    """Those that logins, rights and Airflow's own log of wishes need; to make all takes half a minute."""
    from airflow import settings
    from airflow.models import DagModel
    from airflow.models.revoked_token import RevokedToken

    if settings.engine is None:
        settings.configure_orm()
    named = ("team", "dag_bundle", "dag_bundle_team", "dag", "log")
    tables = [RevokedToken.__table__, *(DagModel.metadata.tables[name] for name in named)]
    DagModel.metadata.create_all(settings.engine, tables)


@contextmanager
def streams_page(folder: Path) -> Iterator[StreamsPage]:
    os.environ.setdefault("AIRFLOW_HOME", str(folder / "airflow"))
    os.environ.update(SETTINGS)
    with small_project(folder / "project") as project:
        yield StreamsPage(project)
