"""The Streams page in a real Airflow, and users with a browser, Debian's Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject
from tests.support.streams_server import PROGRAM, streams_server
from tidemill.control.local.process_identity import start_detached
from tidemill.control.local.process_session import kill_session
from tidemill.dev.airflow_api import log_in
from tidemill.dev.airflow_standalone import AirflowServer

# Path of the browser that apt-get installs.
CHROMIUM = "/usr/bin/chromium"

# Folder of the files that the tests leave for inspection.
SCREENSHOTS = ROOT / ".cache/screenshots"

# Base address of the runbook pages; tests do not follow the links.
RUNBOOKS = "https://pages.example.com/runbooks"

Theme = Literal["light", "dark"]


@dataclass(frozen=True)
class Person:
    """A user who is logged in to Airflow, with a browser window."""

    page: Page
    url: str
    token: str

    def open(self, address: str) -> Page:
        """Open a part of the page by its address after the #."""
        self.page.goto(f"{self.url}/tidemill/#/{address}")
        return self.page

    def answer_to(self, path: str) -> int:
        """HTTP status of the page's API, asked from within the page."""
        asked = "path => fetch('/tidemill/api/' + path).then(answer => answer.status)"
        return int(self.page.evaluate(asked, path))

    def answer_to_run(self, dag_id: str) -> int:
        """HTTP status of Airflow's own API, asked for a run from within the page, as by a button."""
        asked = """dag => fetch(`/api/v2/dags/${dag}/dagRuns`, {
            method: "POST", headers: {"Content-Type": "application/json"}, body: '{"logical_date": null}',
        }).then(answer => answer.status)"""
        return int(self.page.evaluate(asked, dag_id))

    def keep(self, name: str) -> None:
        """Make a screenshot of the window."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


@dataclass(frozen=True)
class Visitors:
    """Users who visit the page, and the Airflow that shows it."""

    browser: Browser
    server: AirflowServer
    variables: Mapping[str, str]

    @contextmanager
    def visit(self, user: str, theme: Theme = "light", width: int = 1360) -> Iterator[Person]:
        """Open a window as a user; at the end, check that no error occurred in the page itself."""
        passwords = json.loads(
            (self.server.home / "simple_auth_manager_passwords.json.generated").read_text()
        )
        token = log_in(self.server.url, user, passwords[user]).token
        window = self.browser.new_context(color_scheme=theme, viewport={"width": width, "height": 860})
        window.add_cookies([{"name": "_token", "value": token, "url": self.server.url}])
        page = window.new_page()
        # Time for an element to appear: 30 s were not enough once, next to a `helm install`.
        page.set_default_timeout(90_000)
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        try:
            yield Person(page, self.server.url, token)
        finally:
            window.close()
        assert troubles == []

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """Run Airflow's scheduler, which runs requested DAGs and reconciles streams each minute."""
        home = self.server.home
        identity = start_detached([str(PROGRAM), "scheduler"], home / "scheduler.log", self.variables)
        try:
            yield
        finally:
            kill_session(identity)
            identity.reap()


@contextmanager
def visitors(folder: Path, project: SmallProject) -> Iterator[Visitors]:
    """Airflow's own API server over a project, with an administrator and a viewer, and a browser.

    A DAG run that is asked for stays queued until `Visitors.scheduler`.
    """
    asked = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
        "TIDEMILL_RUNBOOKS_URL": RUNBOOKS,
    }
    serving = streams_server(folder / "airflow", project, asked)
    with serving as (server, variables), sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root; it opens nothing but this machine's pages.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Visitors(browser, server, variables)
        browser.close()
