"""One real Airflow with real drivers over a real broker, and pipelines whose every record is counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.action_kills import Kill
from tests.support.counted_events import CountedEvents
from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.faulty_airflow import FaultyAirflow
from tests.support.kafka import Kafka
from tests.support.lake import Lake
from tests.support.postgres import PostgresServer
from tests.support.small_project import SmallProject
from tests.support.standing_task import Moment, StandingTask, StandingTasks, Victim
from tidemill.airflow_names import checkpoint_dag_id, incremental_dag_id, stream_dag_id
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.checkpoint.doctor.examine import examine
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.control.ask.waiting_task import waiting_tasks
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.dev import airflow_standalone
from tidemill.dev.airflow_standalone import AirflowConfig, find_airflow, stop_airflow
from tidemill.dev.ports import free_ports

# Seconds without a heartbeat after which Airflow takes a task for lost. By default five minutes; a task of a
# busy machine must not be taken for lost while it lives.
LOST_AFTER_SECONDS = 30

# Seconds for Airflow to start on a busy machine.
START_TIMEOUT_SECONDS = 900

# Seconds for a driver to start and read what there is.
PROGRESS_TIMEOUT_SECONDS = 180

INCREMENTAL = {"run": {"mode": "incremental"}}
STREAM = {"run": {"mode": "stream", "trigger": "1 second"}}

# A transform with state: the keys that it has seen.
DISTINCT = """
def transform(events):
    return events.dropDuplicates(["id", "at"])
"""

# Number of small files and age with which maintenance rewrites files (tidemill/maintenance/decide.py).
SMALL_FILES = 20
OLD = timedelta(days=60)

# A fork of `daily`.
FORK = "daily_fork"

# Commits a batch for every few records: a run of many batches, that outlasts what happens to Airflow.
SLOW_BATCH = 4

# Records that the transform fails at.
POISON = ("poisoned-7", "poisoned-31")
POISONED = f"""
from pyspark.sql import functions as F

def transform(events):
    return events.withColumn("one", F.expr("1 / IF(id IN {POISON}, 0, 1)"))
"""


class RealProject(SmallProject):
    """A project whose drivers are Spark's."""

    def plane(self) -> ControlPlane:
        return open_control_plane(self.environment)


@dataclass(frozen=True)
class FaultWorld:
    """The server, its project, and the sent events."""

    airflow: FaultyAirflow
    lake: Lake
    standing: StandingTasks
    events: dict[str, CountedEvents]
    postgres: PostgresServer | None

    @property
    def plane(self) -> ControlPlane:
        return self.airflow.project.plane()

    def run_killed(
        self, moment: Moment, victim: Victim, params: dict[str, Any] | None = None
    ) -> tuple[str, StandingTask]:
        """Trigger a run, and kill a task of it at a moment; Airflow repeats it by itself. Its id."""
        self.standing.ask(moment)
        run_id = self.airflow.begin(moment.dag_id, params)
        standing = self.standing.reached(moment)
        assert standing.run_id == run_id
        standing.kill(victim)
        return run_id, standing

    def assert_succeeds_by_itself(
        self, moment: Moment, victim: Victim, params: dict[str, Any] | None = None
    ) -> str:
        """Kill a task of a new run; the run succeeds with another try. A task that lives on wakes then."""
        run_id, standing = self.run_killed(moment, victim, params)
        assert self.airflow.end(moment.dag_id, run_id) == "success"
        assert self.airflow.tries(moment.dag_id, run_id, moment.task_id) > 1
        if victim == "worker":
            standing.wake()
        return run_id

    def assert_mapped_succeeds_by_itself(self, kill: Kill) -> None:
        """The same for a mapped task of a daily DAG, whose first run by schedule may come first."""
        dag_id = kill.moment.dag_id
        self.standing.ask(kill.moment)
        run_id = self.airflow.begin(dag_id)
        standing = self.standing.reached(kill.moment)
        standing.kill(kill.victim)
        for each in {standing.run_id, run_id}:
            assert self.airflow.end(dag_id, each) == "success"
        tries = self.airflow.api.call("GET", f"/dags/{dag_id}/dagRuns/{quote(standing.run_id)}/taskInstances")
        assert max(task["try_number"] for task in tries["task_instances"]) > 1

    def run_incremental(self, name: str) -> None:
        """Run up to what the topic has now."""
        run_id, state = self.airflow.run(incremental_dag_id(name))
        assert state == "success", (run_id, state)

    def act(self, name: str, action: str) -> None:
        """Run an action on a stream, which must succeed."""
        run_id, state = self.airflow.run(stream_dag_id(name), {"action": action})
        assert state == "success", (run_id, state)

    def verb(self, verb: str, name: str, **params: Any) -> str:
        """Carry an operation of a checkpoint out; the state of its run."""
        asked = {"pipeline": name, "reason": "soak", "dry_run": False, **params}
        return self.airflow.run(checkpoint_dag_id(verb), asked)[1]

    def be_at_work(self, name: str) -> None:
        """See that a stream runs."""
        if self.plane.running(name) is None:
            self.act(name, "start")

    def be_still(self, name: str) -> None:
        """See that a stream does not run."""
        if self.plane.running(name) is not None:
            self.act(name, "stop")

    def is_suspended(self, name: str) -> bool:
        desired = read_desired(self.plane.store, self.plane.layout, name)
        return desired is not None and desired.state == "suspended"

    def have_batches(self, name: str, count: int) -> None:
        """Run an incremental pipeline until it has committed this number of batches."""
        events = self.events[name]
        while len(self.lake.ledger(events.table) if events.rows() else []) < count:
            events.send(10)
            self.run_incremental(name)

    def have_small_files(self, name: str) -> None:
        """Let a stream commit batch after batch, until maintenance would put its files together."""
        table = self.events[name].table
        with self.events[name].flowing():
            eventually(
                lambda: len(self.lake.data_files(table)) > SMALL_FILES,
                "small files",
                PROGRESS_TIMEOUT_SECONDS,
            )

    def age(self, name: str) -> set[Path]:
        """Let all files of a table be old, also those that no version needs; its data files."""
        folder = self.lake.root / "tables" / self.events[name].table
        moment = (datetime.now(UTC) - OLD).timestamp()
        for file in folder.rglob("*"):
            if file.is_file():
                os.utime(file, (moment, moment))
        return set(folder.glob("*.parquet"))

    def backfill_of(self, name: str) -> dict[str, str]:
        """Return the fields of a backfill's form: the first 50 records, in chunks."""
        events = self.events[name]
        return {"pipeline": name, "from": events.at(0), "to": events.at(50), "chunk": "20"}

    def files(self) -> set[tuple[Path, int, int]]:
        """Return all files of conf, code, tables and checkpoints, with size and time."""
        folders = (self.lake.folder / "conf", self.lake.folder / "spark_apps", self.lake.root / "state")
        found = [path for folder in (*folders, self.lake.root / "tables") for path in folder.rglob("*")]
        return {(path, path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}

    def until_all_are_there(self, name: str) -> None:
        eventually(
            self.events[name].are_all_there, f"{name} has read all", PROGRESS_TIMEOUT_SECONDS, poll_seconds=1
        )

    def assert_sound(self, name: str) -> None:
        """Check that each record came out once and that no hold, waiting task or error is left."""
        self.events[name].assert_exactly_once()
        plane = self.plane
        eventually(lambda: not self._waiting(name), "no note of a task that waits is left", 90, 1)
        assert read_holds(plane.store, plane.layout, name) == []
        assert unfinished(plane.store, plane.layout, name) is None
        found = examine(plane.environment, [name]).findings
        assert [finding for finding in found if finding.severity == "error"] == []

    def _waiting(self, name: str) -> list[str]:
        return [task.run_id for task in waiting_tasks(self.plane) if task.pipeline == name]


def declare_all(lake: Lake, kafka: Kafka) -> dict[str, CountedEvents]:
    """Declare every pipeline that a test needs, before Airflow starts."""
    declared: dict[str, dict[str, Any]] = {
        "daily": INCREMENTAL,
        "slow": {**INCREMENTAL, "batch": SLOW_BATCH},
        "live": STREAM,
        "hung": STREAM,
        "small": {"run": {**STREAM["run"], "asset_every": "1 minute"}},
        "keyed": {**INCREMENTAL, "transform": lake.transform("keyed", DISTINCT)},
        "poisoned": {
            "run": {"mode": "incremental", "on_poison": "quarantine"},
            "transform": lake.transform("poisoned", POISONED),
        },
    }
    events = {name: CountedEvents(lake, kafka, name, **keys) for name, keys in declared.items()}
    events[FORK] = events["daily"].forked(FORK)
    return events


@contextmanager
def fault_world(folder: Path, kafka: Kafka, postgres: PostgresServer | None) -> Iterator[FaultWorld]:
    """Start it all; nothing outlives the block."""
    lake = Lake(folder / "lake", None, kafka.bootstrap_servers)  # type: ignore[arg-type]  # drivers bring theirs
    lake.configure(grace_period="1 minute")
    events = declare_all(lake, kafka)
    project = RealProject(lake.folder.resolve())
    home = folder / "airflow"
    standing = StandingTasks(home)
    config = AirflowConfig(
        home=home,
        dags=ROOT / "dags",
        project=project.folder,
        port=free_ports(1)[0],
        variables={
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "spark_apps", "dags")),
            # The files of DAGs stay as they are: each look costs seconds of a core.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(LOST_AFTER_SECONDS),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
            **standing.variables,
            **database_of(postgres),
        },
    )
    for name, each in events.items():
        if each.pipeline.resolved.spec.run.mode == "stream":
            stopped = Desired(state="stopped", by="tests")
            write_desired(project.plane().store, project.plane().layout, name, stopped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(airflow_standalone, "START_TIMEOUT_SECONDS", START_TIMEOUT_SECONDS)
        try:
            airflow = FaultyAirflow(config, project)
            try:
                yield FaultWorld(airflow, lake, standing, events, postgres)
            finally:
                airflow.end_started_parts()
        finally:
            if (server := find_airflow(home)) is not None:
                stop_airflow(server)
            project.end_all()


def database_of(postgres: PostgresServer | None) -> dict[str, str]:
    """Airflow's own database; SQLite unless there is a server."""
    if postgres is None:
        return {}
    url = postgres.connection_string.replace("postgresql://", "postgresql+psycopg2://")
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}
