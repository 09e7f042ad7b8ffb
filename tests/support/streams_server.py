"""A real API server of Airflow with the Streams page, over a small project; no scheduler."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject
from tidemill.control.local.process_identity import start_detached
from tidemill.control.plane import COMMAND_VARIABLE
from tidemill.dev.airflow_standalone import AirflowConfig, AirflowServer, stop_airflow
from tidemill.dev.airflow_variables import airflow_variables
from tidemill.dev.ports import LOOPBACK, free_ports

PROGRAM = Path(sys.executable).with_name("airflow")


def no_more(variables: Mapping[str, str]) -> None:
    """Nothing before the server starts."""


@contextmanager
def streams_server(
    home: Path,
    project: SmallProject,
    variables: Mapping[str, str],
    before: Callable[[Mapping[str, str]], None] = no_more,
) -> Iterator[tuple[AirflowServer, Mapping[str, str]]]:
    """Yield an API server with a separate database that has the project's DAGs, and Airflow's environment.

    Args:
        home: AIRFLOW_HOME; made.
        variables: Variables that define the users and the login.
        before: Changes the database before the server starts; gets that environment.
    """
    home.mkdir(mode=0o700)
    port, worker_log, trigger_log = free_ports(3)
    fake = {
        COMMAND_VARIABLE: "tests.support.fake_driver:fake_driver_command",
        "PYTHONPATH": project.variables["PYTHONPATH"],
    }
    config = AirflowConfig(home, ROOT / "dags", project.folder, port=port, variables={**fake, **variables})
    environment = airflow_variables(config, PROGRAM, (port, worker_log, trigger_log))
    for command in (["db", "migrate"], ["dags", "reserialize"]):
        subprocess.run([PROGRAM, *command], env=environment, check=True, capture_output=True, timeout=120)
    before(environment)
    arguments = [str(PROGRAM), "api-server", "--port", str(port), "--host", LOOPBACK, "--workers", "1"]
    server = AirflowServer(
        home, f"http://{LOOPBACK}:{port}", start_detached(arguments, home / "standalone.log", environment)
    )
    try:
        eventually(lambda: is_up(server.url), "Airflow answers", 120)
        yield server, environment
    finally:
        stop_airflow(server)


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/version", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
