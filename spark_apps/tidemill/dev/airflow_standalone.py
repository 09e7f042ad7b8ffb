"""`airflow standalone` on the loopback interface: all parts of Airflow in one session, on SQLite.

For development, the demo and tests. It runs detached: `start_airflow` returns once all parts are healthy,
any later process finds it with `find_airflow` and ends it, with all its children, by `stop_airflow`.
Drivers that its tasks started are not among these: they live on. Its folder is AIRFLOW_HOME:

    airflow.json                                    which process runs here, and its address
    standalone.log                                  what it says; standalone.previous.log: what it said before
    airflow.cfg, airflow.db, logs/                  Airflow's own
    simple_auth_manager_passwords.json.generated    the login, made by Airflow
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from tidemill.airflow_names import DRIVER_POOL
from tidemill.control.local.process_identity import ProcessIdentity, start_detached
from tidemill.control.local.process_session import kill_marked_processes, kill_session, session_members
from tidemill.dev.airflow_api import log_in
from tidemill.dev.airflow_variables import HOME_VARIABLE, AirflowConfig, airflow_variables
from tidemill.dev.ports import LOOPBACK, free_ports, is_free
from tidemill.errors import UnavailableError, UsageError

__all__ = [
    "AirflowConfig",
    "AirflowServer",
    "find_airflow",
    "kill_airflow",
    "make_driver_pool",
    "start_airflow",
    "stop_airflow",
]

# Seconds from the start to all parts being healthy and the pool being there. Measured 20-45 s on idle cores:
# the database is made first; a machine that also runs Spark takes several times that.
START_TIMEOUT_SECONDS = 240

# Seconds that Airflow may take after SIGINT; its parts end within 5-10 s. What is left then is killed,
# which its database and the next start survive.
STOP_TIMEOUT_SECONDS = 30

# Seconds until a killed process is gone.
KILL_TIMEOUT_SECONDS = 10

# Seconds that one look at its health may take, and between two looks.
LOOK_TIMEOUT_SECONDS = 5
POLL_SECONDS = 0.5

# Airflow's usual port.
USUAL_PORT = 8080

# Incremental runs and backfills at the same time; the others wait. Each is a JVM of a gigabyte or two.
DRIVER_SLOTS = 4

# Lines of the log shown when it does not come up: one Python traceback's end.
SHOWN_LOG_LINES = 15

PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


@dataclass(frozen=True)
class AirflowServer:
    """An Airflow that was started, perhaps by another process.

    Args:
        home: AIRFLOW_HOME.
        url: Address of UI and API.
        identity: Its first process, which leads the session of all others.
    """

    home: Path
    url: str
    identity: ProcessIdentity

    @property
    def log(self) -> Path:
        """What it says."""
        return self.home / "standalone.log"

    @property
    def user(self) -> str:
        """Name to log in with."""
        return "admin"

    @property
    def password(self) -> str | None:
        """Password to log in with; None if Airflow has made none: then everybody is administrator."""
        try:
            file = self.home / "simple_auth_manager_passwords.json.generated"
            return str(json.loads(file.read_text(encoding="utf-8"))[self.user])
        except (FileNotFoundError, KeyError):
            return None


def start_airflow(config: AirflowConfig) -> AirflowServer:
    """Start Airflow and return when all its parts are healthy.

    Raises:
        UsageError: TIDE-DEV-020 if Airflow is not installed, TIDE-DEV-021 if one runs in this home.
        UnavailableError: TIDE-DEV-022, if it ended or did not become healthy; shows the end of its log.
            TIDE-DEV-030, if the pool of drivers cannot be made.
    """
    program = _airflow_program()
    running = find_airflow(config.home)
    if running is not None:
        raise UsageError(
            "TIDE-DEV-021",
            "An Airflow runs in this folder already.",
            facts={"home": config.home, "url": running.url},
            fix="use that one, or stop it first",
        )
    config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    ports = _ports(config)
    server = _launch(config, program, ports)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    try:
        _wait_until_healthy(server, deadline)
        make_driver_pool(server, deadline)
    except BaseException:
        stop_airflow(server)
        raise
    return server


def make_driver_pool(server: AirflowServer, deadline: float) -> None:
    """The pool of tasks that run drivers; one that a person made or changed stays as it is.

    A server that has just come up is asked again until `deadline`, in seconds of the monotonic clock: where
    the disk is busy, its database may take longer for one write than an answer may.

    Raises:
        UnavailableError: TIDE-DEV-030, if it has not answered by then, or has ended.
    """
    pool = {
        "name": DRIVER_POOL,
        "slots": DRIVER_SLOTS,
        "description": "Drivers of incremental runs and backfills",
        # A task that waits for its driver is deferred.
        "include_deferred": True,
    }
    while True:
        try:
            api = log_in(server.url, server.user, server.password)
            # What was asked for without an answer may be there.
            if DRIVER_POOL not in {known["name"] for known in api.call("GET", "/pools?limit=1000")["pools"]}:
                api.call("POST", "/pools", pool)
            return
        except UnavailableError:
            if time.monotonic() > deadline or not server.identity.is_alive():
                raise
            time.sleep(POLL_SECONDS)


def find_airflow(home: Path) -> AirflowServer | None:
    """The Airflow that runs in this home, whoever started it, or None."""
    try:
        record = json.loads((home / "airflow.json").read_text(encoding="utf-8"))
        server = AirflowServer(home, record["url"], ProcessIdentity(**record["process"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return server if server.identity.is_alive() else None


def stop_airflow(server: AirflowServer) -> None:
    """End Airflow and all its processes: asked first, what is left killed in the end."""
    members = session_members(server.identity)
    server.identity.signal(signal.SIGINT)
    if not server.identity.wait_until_gone(STOP_TIMEOUT_SECONDS):
        members += session_members(server.identity)
    for process in (server.identity, *members):
        process.signal(signal.SIGKILL)
    _end_remains(server)


def kill_airflow(server: AirflowServer) -> None:
    """End Airflow and all its processes at once, as a machine does that loses power."""
    kill_session(server.identity)
    _end_remains(server)


def _end_remains(server: AirflowServer) -> None:
    """Wait for the leader, and end what was started while it died."""
    server.identity.wait_until_gone(KILL_TIMEOUT_SECONDS)
    kill_marked_processes(server.identity.pid, f"{HOME_VARIABLE}={server.home}", KILL_TIMEOUT_SECONDS)
    server.identity.reap()


def _launch(config: AirflowConfig, program: Path, ports: tuple[int, int, int]) -> AirflowServer:
    log = config.home / "standalone.log"
    if log.exists():
        log.replace(config.home / "standalone.previous.log")
    identity = start_detached([str(program), "standalone"], log, airflow_variables(config, program, ports))
    server = AirflowServer(config.home, f"http://{LOOPBACK}:{ports[0]}", identity)
    record = {"v": 1, "url": server.url, "process": asdict(identity)}
    (config.home / "airflow.json").write_text(json.dumps(record), encoding="utf-8")
    return server


def _ports(config: AirflowConfig) -> tuple[int, int, int]:
    free, worker_log, trigger_log = free_ports(3)
    usual = USUAL_PORT if is_free(USUAL_PORT) else free
    return config.port or usual, worker_log, trigger_log


def _wait_until_healthy(server: AirflowServer, deadline: float) -> None:
    while (sick := _sick_parts(server.url)) and time.monotonic() < deadline:
        if not server.identity.is_alive():
            break
        time.sleep(POLL_SECONDS)
    if sick:
        lines = server.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LOG_LINES:]
        raise UnavailableError(
            "TIDE-DEV-022",
            "Airflow did not become healthy.",
            facts={
                "home": server.home,
                "url": server.url,
                "missing": ", ".join(sick),
                "log": "\n".join(["", *lines]),
            },
            fix=f"see {server.log}",
        )


def _sick_parts(url: str) -> list[str]:
    """Parts that are not healthy yet; all of them while nothing answers."""
    try:
        look = f"{url}/api/v2/monitor/health"
        with urllib.request.urlopen(look, timeout=LOOK_TIMEOUT_SECONDS) as answer:  # noqa: S310  # our own http
            health = json.load(answer)
    except (OSError, ValueError):
        return list(PARTS)
    return [part for part in PARTS if (health.get(part) or {}).get("status") != "healthy"]


def _airflow_program() -> Path:
    beside = Path(sys.executable).with_name("airflow")
    found = str(beside) if beside.is_file() else shutil.which("airflow")
    if found is None:
        raise UsageError(
            "TIDE-DEV-020",
            "Airflow is not installed here.",
            facts={"looked_in": f"{beside.parent} and PATH"},
            fix="install the extra `airflow`: make setup",
        )
    return Path(found)
