"""The whole platform in a cluster: release, Airflow, topic and lake, and the oracle of the expected rows."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.support.cluster import Cluster, Document, until
from tests.support.cluster_airflow import ENDED, ClusterAirflow
from tests.support.fed_events import FedEvents
from tests.support.inside_cluster import Agent, feeding, inward, rows_as_windows, start_observer
from tests.support.release import NAME, Release, driver_of, is_running
from tidemill.airflow_names import STREAMS_DAG_ID
from tidemill.names import kubernetes_name

BRONZE, WINDOWS = "iot_events_bronze", "iot_device_windows"
TOPIC = "iot_events"
TABLES = {BRONZE: "bronze/iot_events", WINDOWS: "silver/iot_device_windows"}

# Timeout in seconds of an operator's command. It may start Spark in a separate pod, or wait for a drain.
VERB_TIMEOUT_SECONDS = 600

# Seconds for a driver to commit its next batch: pods, two Spark starts at the same time on two cores, and the
# reconciliation, which looks once a minute.
BATCH_TIMEOUT_SECONDS = 500

# Seconds after which a batch counts as stuck; one takes about three.
STUCK_SECONDS = 15

# Seconds for the broker to format its storage, and for its topics.
BROKER_TIMEOUT_SECONDS = 400

# Seconds for the tables to hold all that was sent: a restart, and a few batches.
COMPLETE_TIMEOUT_SECONDS = 500

# Seconds for a whole look of the reconciliation: it looks once a minute.
RECONCILED_SECONDS = 360

EVENTS_PER_SECOND = 50.0

# Seed of the first era.
SEED = 20261122


@dataclass
class Platform:
    """One installed release and what tests have done to it."""

    cluster: Cluster
    release: Release
    airflow: ClusterAirflow
    agent: Agent
    servers: str
    root: str
    fed: FedEvents = field(default_factory=lambda: FedEvents(SEED))
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def streams(self) -> Cluster:
        """Return the namespace of drivers and executors."""
        return self.release.streams

    @contextmanager
    def events_flow(self, per_second: float = EVENTS_PER_SECOND, most: int | None = None) -> Iterator[None]:
        """Send events of a new era during a `with` block, and close the era at its end."""
        with feeding(self.cluster, self._order(per_second, most), self.fed.settings) as feeder:
            try:
                yield
            finally:
                # Close the era even after a failed test, because the next test counts these events as well.
                self._close_era(feeder.stop())

    def feed(self, count: int) -> None:
        """Send an era of this number of events at once."""
        with feeding(self.cluster, self._order(None, count), self.fed.settings) as feeder:
            sent = feeder.end()
        self._close_era(sent)

    def _close_era(self, sent: int) -> None:
        with feeding(self.cluster, self._order(None, 1), self.fed.closing) as feeder:
            feeder.end()
        self.fed.close(sent)

    def _order(self, events_per_second: float | None, count: int | None) -> Document:
        place = {"servers": self.servers, "topic": TOPIC}
        return {**place, "events_per_second": events_per_second, "count": count}

    def until_broker(self) -> None:
        """Wait until the broker answers, and has its topics."""

        def has_topics() -> bool:
            jobs = self.cluster.list("jobs", "app.kubernetes.io/component=topics")
            brokers = self.cluster.pods("app.kubernetes.io/component=broker")
            made = any(job["status"].get("succeeded") for job in jobs)
            return made and any(is_running(pod) for pod in brokers)

        until(has_topics, "the broker has its topics", BROKER_TIMEOUT_SECONDS)

    def driver(self, pipeline: str) -> Document | None:
        """Return the pod of a stream's driver."""
        return driver_of(self.streams, kubernetes_name(pipeline))

    def executors(self, pipeline: str) -> list[Document]:
        """Return the pods of a stream's executors that run."""
        selector = f"tidemill/pipeline={pipeline},app.kubernetes.io/component=executor"
        return [pod for pod in self.streams.pods(selector) if is_running(pod)]

    def committed(self, pipeline: str) -> int:
        return int(self.agent.ask("committed", pipeline=pipeline))

    def until_batch_ends(self, pipeline: str) -> int:
        """Wait until the batch that has begun, whose rows may be there, is committed; its number."""
        begun = int(self.agent.ask("begun", pipeline=pipeline))
        return self.until_batch(pipeline, after=begun - 1)

    def until_stuck(self, pipeline: str) -> int:
        """Wait until a batch has begun and does not end; its number."""
        since: dict[int, float] = {}

        def stuck() -> bool:
            begun = int(self.agent.ask("begun", pipeline=pipeline))
            seen = since.setdefault(begun, time.monotonic())
            return begun > self.committed(pipeline) and time.monotonic() - seen > STUCK_SECONDS

        until(stuck, f"{pipeline} is stuck in a batch", BATCH_TIMEOUT_SECONDS)
        return max(since)

    def epochs(self, pipeline: str) -> int:
        """Return the number of drivers that have claimed an epoch."""
        return len(self.agent.ask("epochs", pipeline=pipeline))

    def until_batch(self, pipeline: str, after: int | None = None) -> int:
        """Wait for a batch that is committed from now on, or after a certain one; its number."""
        known = self.committed(pipeline) if after is None else after
        until(
            lambda: self.committed(pipeline) > known,
            f"{pipeline} commits a batch after {known}",
            BATCH_TIMEOUT_SECONDS,
        )
        return self.committed(pipeline)

    def until_healthy(self, pipeline: str) -> Document:
        """Wait until a driver is ready, which is a committed batch; its pod."""
        until(lambda: is_running(self.driver(pipeline)), f"{pipeline} is ready", BATCH_TIMEOUT_SECONDS)
        pod = self.driver(pipeline)
        assert pod is not None
        return pod

    def until_reconciled(self) -> str:
        """Wait for a reconciliation that begins from now on, and return its output."""
        known = {run["dag_run_id"] for run in self.airflow.runs(STREAMS_DAG_ID)}

        def next_run() -> str | None:
            ended = [run for run in self.airflow.runs(STREAMS_DAG_ID) if run["state"] in ENDED]
            return next((run["dag_run_id"] for run in ended if run["dag_run_id"] not in known), None)

        run_id = until(next_run, "the streams are reconciled", RECONCILED_SECONDS)
        assert run_id is not None
        return self.airflow.log_of(STREAMS_DAG_ID, run_id, "reconcile")

    def tidemill(self, *words: str) -> Any:
        """Run a command in the scheduler's pod like an operator, and return its output; JSON is parsed."""
        text = self.cluster(*self.in_scheduler("tidemill", *words), timeout_seconds=VERB_TIMEOUT_SECONDS)
        return json.loads(text) if "--json" in words else text

    @staticmethod
    def in_scheduler(*command: str) -> tuple[str, ...]:
        """Arguments of kubectl that run a command there."""
        return ("exec", f"{NAME}-scheduler-0", "--container=scheduler", "--", *command)

    def newest_receipt(self, pipeline: str) -> dict[str, Any] | None:
        found = self.agent.ask("receipts", pipeline=pipeline)
        return found[-1] if found else None

    def assert_exact(self) -> None:
        """Wait until the tables hold all that was sent; then they hold exactly that."""
        records, windows = self.fed.records(), self.fed.windows()
        for table, expected in ((TABLES[BRONZE], records.total()), (TABLES[WINDOWS], len(windows))):
            until(
                lambda table=table, expected=expected: self.agent.ask("count", table=table) >= expected,
                f"{table} has {expected} rows",
                COMPLETE_TIMEOUT_SECONDS,
            )
        columns = ["kafka_partition", "kafka_offset", "event_id"]
        rows = self.agent.ask("rows", table=TABLES[BRONZE], columns=columns)
        assert len({(partition, offset) for partition, offset, _ in rows}) == len(rows)
        assert Counter(event_id for _, _, event_id in rows) == records
        columns = ["device_id", "window_start", "events"]
        assert rows_as_windows(self.agent.ask("rows", table=TABLES[WINDOWS], columns=columns)) == windows
        for pipeline, table in TABLES.items():
            self.assert_ledger_rises(pipeline, table)

    def assert_ledger_rises(self, pipeline: str, table: str) -> None:
        """Check that no older driver of the live generation wrote after a newer one, and no batch twice."""
        ledger = self.agent.ask("ledger", pipeline=pipeline, table=table)
        epochs, batches = [epoch for _, epoch, _ in ledger], [batch for _, _, batch in ledger]
        assert epochs == sorted(epochs)
        assert batches == sorted(set(batches))


@contextmanager
def platform_in(cluster: Cluster, release: Release) -> Iterator[Platform]:
    """Yield a release that is installed and ready, and remove everything after the block."""
    values = release.used_values()
    environment = environment_of(cluster)
    (volume,) = environment["kubernetes"]["volumes"]
    start_observer(cluster, release.image("airflow"), volume["claim"], volume["path"])
    release.streams.apply(inward(cluster.namespace))
    with ExitStack() as open_things:
        agent = Agent(cluster, environment["root"])
        open_things.callback(agent.close)
        user = values["airflow"]["admin"]["username"]
        airflow = ClusterAirflow(cluster, f"{NAME}-api-server", f"{NAME}-airflow", user)
        open_things.callback(airflow.close)
        servers = environment["kafka"]["bootstrap_servers"]
        yield Platform(cluster, release, airflow, agent, servers, environment["root"])


def environment_of(cluster: Cluster) -> Document:
    """Return the environment file, as the chart has made it."""
    (text,) = cluster.config(f"{NAME}-environment").values()
    environment: Document = yaml.safe_load(text)
    return environment
