"""The environment variables of a standalone Airflow, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tidemill.airflow_names import DRIVER_POOL, DRIVER_POOL_VARIABLE
from tidemill.dev.ports import LOOPBACK
from tidemill.spec.project import ENVIRONMENT_VARIABLE
from tidemill.spec.project_folder import PROJECT_VARIABLE

# Marks every process of one Airflow; drivers do not get it.
HOME_VARIABLE = "AIRFLOW_HOME"

# Number of retries of a task that begins while the API server is unavailable, maximum seconds between them
# (half of that on average), and seconds to wait for an answer. Afterwards the task has used up a try.
# Airflow's default is 15 s in total, less than a start of the server, and a run would fail although its
# driver has finished. As in the chart.
API_PATIENCE = {
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "40",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "15",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
}


@dataclass(frozen=True)
class AirflowConfig:
    """Configuration of an Airflow.

    Args:
        home: AIRFLOW_HOME; created if missing.
        dags: Folder with the DAG files.
        project: Project folder that the DAGs run for.
        environment: Name or file of the environment.
        port: Port of UI and API; by default 8080, or a free one if that is taken.
        open_to_all: Make every user of this machine administrator, without a login. For tests only.
        variables: More variables for Airflow; drivers get those that begin with TIDEMILL_.
    """

    home: Path
    dags: Path
    project: Path
    environment: str = "local"
    port: int | None = None
    open_to_all: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def airflow_variables(
    config: AirflowConfig, program: Path, ports: tuple[int, int, int], base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return all variables; `ports` are those of the API, the worker's and the triggerer's log servers."""
    api, worker_log, trigger_log = (str(port) for port in ports)
    url = f"http://{LOOPBACK}:{api}"
    # Exclude settings of another Airflow on this machine.
    kept = {name: value for name, value in base.items() if not name.startswith("AIRFLOW")}
    return {
        **kept,
        HOME_VARIABLE: str(config.home),
        # Airflow's default puts the home into the URL without encoding it, and `?` ends a path there.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{quote(str(config.home.absolute()))}/airflow.db",
        PROJECT_VARIABLE: str(config.project),
        ENVIRONMENT_VARIABLE: config.environment,
        # The pool is created as soon as Airflow answers; until then its tasks wait.
        DRIVER_POOL_VARIABLE: DRIVER_POOL,
        # Standalone starts its components as `airflow …`.
        "PATH": os.pathsep.join([str(program.parent), kept.get("PATH", os.defpath)]),
        "AIRFLOW__CORE__DAGS_FOLDER": str(config.dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # A new DAG file appears within seconds; by default it takes five minutes. Known files are parsed
        # again every 30 s, Airflow's default, because each parse costs a quarter of a second of CPU time.
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # Only this machine can reach it, and tasks use the actual address.
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": api,
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": worker_log,
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": trigger_log,
        **API_PATIENCE,
        # One worker is enough for one user and a demo; each costs 200 MB.
        "AIRFLOW__API__WORKERS": "1",
        # Tasks are short (a stream holds none), and two cores run no more of them at the same time.
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(config.open_to_all),
        **config.variables,
    }
