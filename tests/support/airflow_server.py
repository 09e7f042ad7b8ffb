"""One real Airflow for the run: standalone, with its REST API, and fake drivers in place of Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.small_project import ENVIRONMENT, STREAM, SmallProject, small_project
from tests.support.webhook import Webhook, webhook
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.epochs import newest_epoch
from tidemill.control.plane import COMMAND_VARIABLE
from tidemill.dev.airflow_api import AirflowApi, log_in
from tidemill.dev.airflow_standalone import (
    AirflowConfig,
    AirflowServer,
    find_airflow,
    kill_airflow,
    start_airflow,
    stop_airflow,
)
from tidemill.dev.ports import free_ports
from tidemill.errors import UnavailableError

# Variables of the notifier in tests.support.news, which this process cannot import without Airflow.
NOTIFIER_VARIABLE = "TIDEMILL_NOTIFIER"
NEWS_VARIABLE = "TIDEMILL_TEST_NEWS"

# Seconds for one DAG run of fake drivers: scheduling, two tasks and a deferral take 5-10 on a quiet machine;
# a task that Airflow lost sight of is repeated after 10 and 20 more.
RUN_TIMEOUT_SECONDS = 150

FILES = """
description: Rows from files.
owner: tests
source: {files: {path: landing, format: json, schema: "at timestamp, value long"}}
event_time: {column: at, watermark: 1 minute}
sinks:
  - delta: {table: bronze/%(name)s}
run: {mode: incremental}
"""

BY_HAND = STREAM + "run: {mode: incremental}\n"

PIPELINES = {
    "orders": STREAM,
    "refusing": STREAM,
    "restarted": STREAM,
    "survivor": STREAM,
    "daily": BY_HAND,
    "slow": BY_HAND,
    "patient": BY_HAND,
    "failing": BY_HAND,
    "landing": FILES,
    "filled": FILES,
    "broken": "descripton: a typo",
}

# The connection through which users are notified; only the server knows it.
CHAT = "chat"
NOTIFY = f"protected: true\nnotify: [{{webhook: {{connection: {CHAT}}}}}]\n"


# Two users, for an operation that needs the approval of another user.
USER, OTHER_USER = "admin", "bob"

# Streams that run only when a test asks for them: reconciliation is at work from the first minute on.
ASKED_FOR = ("orders", "refusing", "restarted")


# Timeout of a request in seconds while other tests start Spark. 30 seconds were too short once.
BUSY_ANSWER_SECONDS = 90


class PatientApi(AirflowApi):
    """A client that repeats a GET without an answer, because next to Spark tests the server waits for a core.

    Requests that change something are sent once.
    """

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if method != "GET":
            return super().call(method, path, body)

        def answered() -> list[dict[str, Any]]:
            try:
                return [AirflowApi.call(self, method, path)]
            except UnavailableError as error:
                if status_of(error) is not None:
                    raise
                return []

        return eventually(answered, f"an answer to GET {path}", RUN_TIMEOUT_SECONDS)[0]


class Airflow:
    """The server, its project and its API."""

    chat: Webhook
    run_timeout_seconds: float = RUN_TIMEOUT_SECONDS
    poll_seconds: float = 0.5

    @property
    def news(self) -> list[str]:
        """Return the notifications that its notifier received."""
        file = self.project.folder.parent / "news"
        return file.read_text().split("\n--\n")[:-1] if file.exists() else []

    def __init__(self, config: AirflowConfig, project: SmallProject) -> None:
        self._config = config
        self.project = project
        self.server: AirflowServer = start_airflow(config)
        self.api = self._log_in()

    def tell(self, chat: Webhook) -> None:
        """Make the connection by which its notices go to a chat."""
        self.chat = chat
        told = {"connection_id": CHAT, "conn_type": "http", "host": chat.url, "password": "s3cr3t-t0ken"}
        self.api.call("POST", "/connections", told)

    def kill_and_start_again(self) -> None:
        kill_airflow(self.server)
        self.server = start_airflow(self._config)
        self.api = self._log_in()

    def _log_in(self) -> AirflowApi:
        api = log_in(self.server.url, self.server.user, self.server.password)
        return PatientApi(api.url, api.token, BUSY_ANSWER_SECONDS)

    def as_other_user(self) -> AirflowApi:
        logins = json.loads((self.server.home / "simple_auth_manager_passwords.json.generated").read_text())
        return log_in(self.server.url, OTHER_USER, logins[OTHER_USER])

    def approve(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Approve as another user than the requester.

        Airflow 3.3 fails a task that is answered before its scheduler has recorded that the task waits. The
        same happens with a trigger that fires too early (apache/airflow#72716). No real user is that fast.
        """
        self.until_task(dag_id, run_id, task_id, "awaiting_input")
        noted = f"event with state success for task instance TaskInstanceKey(dag_id='{dag_id}', "
        noted += f"task_id='{task_id}'"
        eventually(
            lambda: any(noted in line and run_id in line for line in self._server_lines()),
            "the scheduler knows that it waits",
            60,
        )
        path = f"{_path(dag_id, run_id)}/taskInstances/{task_id}/-1/hitlDetails"
        self.as_other_user().call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})

    def begin(self, dag_id: str, params: dict[str, Any] | None = None) -> str:
        """Trigger a run as a user with the form does."""
        eventually(lambda: dag_id in self.api.dag_ids(), f"{dag_id} is parsed", self.run_timeout_seconds)
        if self.is_paused(dag_id):
            # On SQLite each write may find another writer at work.
            self.api.unpause(dag_id)
        return self.api.trigger(dag_id, params)

    def end(self, dag_id: str, run_id: str) -> str:
        """Wait for the end of a run; returns its state."""

        def ended() -> str | None:
            state = self.api.run(dag_id, run_id)["state"]
            return state if state in ("success", "failed") else None

        try:
            ends = f"{dag_id} {run_id} ends"
            return eventually(ended, ends, self.run_timeout_seconds, self.poll_seconds) or ""
        except AssertionError as error:
            tasks = self.tasks(dag_id, run_id)
            logs = "\n".join(f"{task}:\n{self.log_of(dag_id, task)[-3000:]}" for task in tasks)
            raise AssertionError(f"{error}\n{tasks}\n{logs}\n{self._scheduler_says(dag_id)}") from error

    def _scheduler_says(self, dag_id: str) -> str:
        return "\n".join([line for line in self._server_lines() if dag_id in line][-20:])

    def _server_lines(self) -> list[str]:
        return self.server.log.read_text(errors="replace").splitlines()

    def run(self, dag_id: str, params: dict[str, Any] | None = None) -> tuple[str, str]:
        """Trigger a run and wait for its end; returns its id and state."""
        run_id = self.begin(dag_id, params)
        return run_id, self.end(dag_id, run_id)

    def until_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        eventually(
            lambda: self.tasks(dag_id, run_id).get(task_id) == state,
            f"{dag_id}.{task_id} is {state}",
            self.run_timeout_seconds,
            self.poll_seconds,
        )

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State of each task of a run."""
        answer = self.api.call("GET", f"{_path(dag_id, run_id)}/taskInstances")
        return {task["task_id"]: task["state"] for task in answer["task_instances"]}

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        path = f"{_path(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/return_value?deserialize=true"
        return self.api.call("GET", path)["value"]

    def clear(self, dag_id: str, run_id: str) -> None:
        """Run all tasks of a run again."""
        self.api.call("POST", f"{_path(dag_id, run_id)}/clear", {"dry_run": False})

    def mark_as_failed(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Mark a task as failed, as a user does to end it."""
        path = f"{_path(dag_id, run_id)}/taskInstances/{task_id}"
        self.api.call("PATCH", path, {"new_state": "failed"})

    def mark_run_as_failed(self, dag_id: str, run_id: str) -> None:
        """Mark a whole run as failed; Airflow skips tasks that have not begun, except teardowns."""
        self.api.call("PATCH", _path(dag_id, run_id), {"state": "failed"})

    def tries(self, dag_id: str, run_id: str, task_id: str) -> int:
        answer = self.api.call("GET", f"{_path(dag_id, run_id)}/taskInstances/{task_id}")
        return int(answer["try_number"])

    def is_paused(self, dag_id: str) -> bool:
        return bool(self.api.call("GET", f"/dags/{dag_id}")["is_paused"])

    def pause(self, dag_id: str) -> None:
        self.api.call("PATCH", f"/dags/{dag_id}?update_mask=is_paused", {"is_paused": True})

    def epoch(self, pipeline: str) -> int:
        """Return the number of drivers of a pipeline that have claimed an epoch."""
        plane = self.project.plane()
        return newest_epoch(plane.store, plane.layout, pipeline)

    def log_of(self, dag_id: str, task_id: str) -> str:
        """Return the log of all tries of a task in all runs of a DAG."""
        folder = self.server.home / "logs" / f"dag_id={dag_id}"
        return "\n".join(p.read_text() for p in sorted(folder.glob(f"*/task_id={task_id}/*.log*")))


def status_of(error: UnavailableError) -> int | None:
    """HTTP status that Airflow answered with."""
    return error.__cause__.code if isinstance(error.__cause__, HTTPError) else None


def _path(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


@contextmanager
def airflow_server(folder: Path) -> Iterator[Airflow]:
    with small_project(folder / "project") as project:
        project.environ(ENVIRONMENT + NOTIFY)
        for name, text in PIPELINES.items():
            project.declare(name, text)
        plane = project.plane()
        for name in ASKED_FOR:
            write_desired(plane.store, plane.layout, name, Desired(state="stopped", by="tests"))
        config = AirflowConfig(
            home=folder / "airflow",
            dags=ROOT / "dags",
            project=project.folder,
            port=free_ports(1)[0],
            variables={
                "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{OTHER_USER}:admin",
                COMMAND_VARIABLE: "tests.support.fake_driver:fake_driver_command",
                "PYTHONPATH": project.variables["PYTHONPATH"],
                # The default pause of 1 second after each idle loop would be most of a test's time.
                "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
                NOTIFIER_VARIABLE: "tests.support.news:notifier",
                NEWS_VARIABLE: str(folder / "news"),
                # A deployment may pause every DAG that fails. The DAG that reconciles must continue.
                "AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG": "1",
            },
        )
        try:
            with webhook() as chat:
                airflow = Airflow(config, project)
                airflow.tell(chat)
                yield airflow
        finally:
            server = find_airflow(config.home)
            if server is not None:
                stop_airflow(server)
