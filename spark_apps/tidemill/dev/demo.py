"""`make demo`: a real broker, events, Airflow and the shipped pipelines on one machine.

All files are below `.tidemill/demo/` of the project, separate from the user's own files:

    demo.yaml           the environment `local` with the demo's broker and storage
    broker/  airflow/   the folders of broker and Airflow
    generator/          log and record of the process that sends events, and the begin of event time
    data/               storage root: tables, checkpoints, control files

A second `make demo` finds the running processes and shows them. `make demo-stop` ends all of them and keeps
the data.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGTERM
from typing import get_args

import yaml

from tidemill.airflow_names import (
    BACKFILL_DAG_ID,
    STREAMS_DAG_ID,
    STREAMS_PAGE,
    incremental_dag_id,
    stream_dag_id,
)
from tidemill.control.local.process_identity import ProcessIdentity, start_detached
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.runtime import Slot
from tidemill.dev.airflow_api import AirflowApi, log_in
from tidemill.dev.airflow_standalone import (
    AirflowConfig,
    AirflowServer,
    find_airflow,
    start_airflow,
    stop_airflow,
)
from tidemill.dev.broker import start_broker, stop_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.dev.broker_process import BrokerProcess, find_broker
from tidemill.dev.ports import is_free
from tidemill.dev.topics import create_topic
from tidemill.errors import UnavailableError
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project

USUAL_BROKER_PORT = 9092

TOPICS = {"iot_events": 4, "iot_alerts": 1}

# 200 events per second are a visible stream and need a small part of one core. At 60 event seconds per
# second, a 5-minute window closes 15 s after its watermark's 10 minutes began.
EVENTS_PER_SECOND = 200
EVENT_SECONDS_PER_SECOND = 60

# Time by which event time begins before the demo's first start. A pipeline rejects events of the future, so
# the fast clock needs this lead, which is enough for six days of demo.
LEAD = timedelta(days=365)

# Shares of events, large enough that each kind appears within a minute.
GENERATOR_RATES = {"late": 0.02, "too-late": 0.002, "duplicate": 0.02, "broken": 0.01}

# Streams of the demo, in the order of the data.
STREAMS = ("iot_events_bronze", "iot_device_windows")

# Scheduled pipelines of the demo.
INCREMENTALS = ("iot_daily_summary",)

# Seconds until Airflow has parsed the DAG files: a few after its start, many more on a busy machine.
DAGS_TIMEOUT_SECONDS = 300

# Seconds for a driver to drain; the same limit after which the local runtime kills it.
DRAIN_TIMEOUT_SECONDS = 120

POLL_SECONDS = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    """The demo of one project."""

    project: Project

    @property
    def folder(self) -> Path:
        """Return the folder of all demo files."""
        return self.project.folder / ".tidemill" / "demo"

    @property
    def environment_file(self) -> Path:
        """Return the demo's environment, usable with `--env`."""
        return self.folder / "demo.yaml"

    def plane(self) -> ControlPlane:
        """Return the control plane of the demo's environment."""
        return open_control_plane(load_environment(self.project, str(self.environment_file)))


def start_demo(demo: Demo, say: Say) -> AirflowServer:
    """Start the components that do not run yet, in the order of their dependencies.

    1. Broker and topics. 2. Environment file. 3. Generator. 4. Airflow, which starts the streams.

    Raises:
        TidemillError: If a component does not start; the others keep running until `stop_demo`.
    """
    demo.folder.mkdir(parents=True, exist_ok=True)
    # 1.
    broker = find_broker(demo.folder / "broker") or _start_broker(demo)
    for topic, partitions in TOPICS.items():
        create_topic(broker.bootstrap_servers, topic, partitions)
    say(f"broker      {broker.bootstrap_servers}")
    # 2.
    _write_environment(demo, broker)
    # 3.
    _start_generator(demo, broker)
    say(f"generator   {EVENTS_PER_SECOND} events/s, {EVENT_SECONDS_PER_SECOND} event seconds a second")
    # 4.
    say("airflow     starting, about half a minute")
    airflow = find_airflow(demo.folder / "airflow") or start_airflow(
        AirflowConfig(
            demo.folder / "airflow",
            demo.project.folder / "dags",
            demo.project.folder,
            str(demo.environment_file),
        )
    )
    say(f"airflow     {airflow.url}  user {airflow.user}  password {airflow.password}")
    say(f"page        {airflow.url}{STREAMS_PAGE}")
    _unpause(log_in(airflow.url, airflow.user, airflow.password))
    say("streams     started by the DAG tidemill_streams")
    return airflow


def stop_demo(demo: Demo, say: Say) -> bool:
    """End all processes of the demo and keep the data. False if one had to be killed.

    Airflow is ended first, because it would restart the drained streams; the broker last, because drivers
    that finish their batch still read from it.
    """
    clean = True
    airflow = find_airflow(demo.folder / "airflow")
    if airflow is not None:
        stop_airflow(airflow)
        say("airflow     stopped")
    if demo.environment_file.exists():
        clean &= _stop_drivers(demo, say)
    generator = _generator(demo)
    if generator is not None and generator.signal(SIGTERM):
        clean &= generator.wait_until_gone(DRAIN_TIMEOUT_SECONDS)
        say("generator   stopped")
    broker = find_broker(demo.folder / "broker")
    if broker is not None:
        clean &= stop_broker(broker)
        say("broker      stopped")
    return clean


def _start_broker(demo: Demo) -> BrokerProcess:
    port = USUAL_BROKER_PORT if is_free(USUAL_BROKER_PORT) else 0
    return start_broker(BrokerConfig(demo.folder / "broker", port))


def _write_environment(demo: Demo, broker: BrokerProcess) -> None:
    local = demo.project.folder / "conf" / "environments" / "local.yaml"
    document = yaml.safe_load(local.read_text(encoding="utf-8"))
    document["kafka"] = {"bootstrap_servers": broker.bootstrap_servers}
    document["root"] = str((demo.folder / "data").relative_to(demo.project.folder))
    text = "# Written by `make demo` from conf/environments/local.yaml.\n" + yaml.safe_dump(document)
    demo.environment_file.write_text(text, encoding="utf-8")


def _start_generator(demo: Demo, broker: BrokerProcess) -> None:
    """Start the generator unless it runs; event time continues from its computed position."""
    if _generator(demo) is not None:
        return
    now = datetime.now(UTC).replace(microsecond=0)
    record = _generator_record(demo)
    record.parent.mkdir(parents=True, exist_ok=True)
    began = now
    if record.exists():
        began = datetime.fromisoformat(json.loads(record.read_text(encoding="utf-8"))["began"])
    rates = (text for name, rate in GENERATOR_RATES.items() for text in (f"--{name}", str(rate)))
    command = [
        *(sys.executable, "-m", "tidemill.cli.app", "dev", "produce", "iot_events"),
        *("--servers", broker.bootstrap_servers, "--rate", str(EVENTS_PER_SECOND)),
        *("--interval-ms", str(1000 * EVENT_SECONDS_PER_SECOND // EVENTS_PER_SECOND)),
        *("--start", _event_time(began, now).isoformat(), "--not-ahead"),
        # Another seed for each run, because the same seed would repeat the ids of the previous run.
        *("--seed", str(int(now.timestamp()))),
        *rates,
    ]
    identity = start_detached(command, record.with_name("generator.log"))
    record.write_text(json.dumps({"v": 1, "began": began.isoformat(), "process": asdict(identity)}))


def _event_time(began: datetime, now: datetime) -> datetime:
    """Return the current event time, which continues with the real clock after it has reached it."""
    return min(now, began - LEAD + (now - began) * EVENT_SECONDS_PER_SECOND)


def _generator(demo: Demo) -> ProcessIdentity | None:
    record = _generator_record(demo)
    if not record.exists():
        return None
    identity = ProcessIdentity(**json.loads(record.read_text(encoding="utf-8"))["process"])
    return identity if identity.is_alive() else None


def _generator_record(demo: Demo) -> Path:
    return demo.folder / "generator" / "process.json"


def _unpause(api: AirflowApi) -> None:
    """Unpause the demo's DAGs, and reconcile at once instead of at the next full minute."""
    wanted = {
        STREAMS_DAG_ID,
        BACKFILL_DAG_ID,
        *map(stream_dag_id, STREAMS),
        *map(incremental_dag_id, INCREMENTALS),
    }
    deadline = time.monotonic() + DAGS_TIMEOUT_SECONDS
    while not wanted <= set(found := api.dag_ids()):
        if time.monotonic() > deadline:
            raise UnavailableError(
                "TIDE-DEV-031",
                "Airflow does not show the DAGs.",
                facts={
                    "missing": ", ".join(sorted(wanted - set(found))),
                    "found": ", ".join(found) or "none",
                },
                fix="look at the import errors on Airflow's start page",
            )
        time.sleep(POLL_SECONDS)
    for dag_id in wanted:
        api.unpause(dag_id)
    api.trigger(STREAMS_DAG_ID)


def _stop_drivers(demo: Demo, say: Say) -> bool:
    """Drain all drivers, including those of backfills that a user has started by their DAG."""
    plane = demo.plane()
    names = {*plane.held_pipelines(), *demo.project.pipeline_names()}
    places = [(name, slot) for name in sorted(names) for slot in get_args(Slot)]
    running = {place: driver for place in places if (driver := plane.running(*place))}
    for driver in running.values():
        plane.runtime.drain(driver)
    deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
    for place, driver in running.items():
        while plane.running(*place) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        drained = plane.running(*place) is None
        if not drained:
            plane.runtime.kill(driver)
        say(f"{driver.mode:<11} {driver.pipeline} {'drained' if drained else 'killed'}")
    return all(plane.running(*place) is None for place in running)
