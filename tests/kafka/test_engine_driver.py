"""The real driver process through what happens: outages, a second driver, a drain; kills in `make soak`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers, drivers_of
from tests.support.eventually import eventually
from tests.support.iot_lake import (
    START,
    IotLake,
    assert_bronze_holds,
    send_events,
    take,
)
from tests.support.kafka import Kafka
from tests.support.kill_story import flowing
from tidemill.checkpoint.status import Status
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.progress import Stall, stall_of
from tidemill.control.runtime import StartedDriver
from tidemill.dev.broker import kill_broker, start_broker, stop_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.dev.broker_process import find_broker
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Target
from tidemill.dev.topics import create_topic
from tidemill.errors import FencedError

SETTINGS = IotSettings(
    start=START,
    seed=11,
    interval=timedelta(milliseconds=200),
    devices=8,
    late_rate=0.05,
    duplicate_rate=0.05,
    broken_rate=0.02,
)

BRONZE = "iot_events_bronze"


@pytest.fixture
def iot(tmp_path: Path, spark: SparkSession, kafka: Kafka, topic: str) -> IotLake:
    return IotLake(tmp_path / "lake", spark, kafka.bootstrap_servers, topic)


@pytest.mark.soak
def test_of_two_drivers_the_older_one_gives_way_and_after_a_drain_the_next_one_repeats_no_batch(
    kafka: Kafka, topic: str, iot: IotLake, drivers: Drivers
) -> None:
    with flowing(Target(kafka.bootstrap_servers, topic), SETTINGS, events_per_second=200) as flow:
        both = [drivers.start(BRONZE), drivers.start(BRONZE)]
        eventually(lambda: not all(d.is_running() for d in both), "one gives way", START_TIMEOUT_SECONDS)
        (staying,) = (driver for driver in both if driver.is_running())
        drivers.wait_for_batch(BRONZE, staying, drivers.committed(BRONZE) + 1)
        assert staying.terminate() == 0
        events = take(SETTINGS, flow.stop())

    (gone,) = (driver for driver in both if driver is not staying)
    assert gone.wait(0) == FencedError.exit_code
    assert "TIDE-RUN-001" in gone.output
    receipt = drivers.receipt(BRONZE)
    assert receipt is not None
    assert (receipt.result, receipt.exit_code, receipt.run_id) == ("clean", 0, staying.run_id)
    assert receipt.batch_id == drivers.committed(BRONZE)
    assert "DrainedError" not in staying.output

    next_run = iot.bronze.run_incremental().status.run_id
    by_run: dict[str, list[int]] = {}
    for commit in iot.lake.ledger("bronze/iot_events"):
        assert commit.entry is not None
        assert commit.entry.batch_id is not None
        by_run.setdefault(commit.entry.run_id, []).append(commit.entry.batch_id)
        if commit.entry.batch_id == receipt.batch_id:
            assert receipt.offsets == {"source": commit.entry.sources["source"].end}
    assert max(by_run[staying.run_id]) == receipt.batch_id
    assert min(by_run[next_run]) == receipt.batch_id + 1
    assert_bronze_holds(iot, events)


@pytest.mark.soak
def test_a_driver_outlives_a_missing_broker_a_missing_topic_and_a_crash_of_the_broker(
    restartable: BrokerConfig, tmp_path: Path
) -> None:
    broker = find_broker(restartable.data_dir)
    assert broker is not None
    servers = broker.bootstrap_servers
    stop_broker(broker)
    iot = IotLake(tmp_path / "lake", None, servers, "outages")
    events = take(replace(SETTINGS, broken_rate=0.0), 300)

    with drivers_of(iot.lake.folder) as drivers:
        driver = drivers.start(BRONZE)
        drivers.wait_for_status(BRONZE, driver, "waiting", "TIDE-SRC-001")
        broker = start_broker(restartable)
        drivers.wait_for_status(BRONZE, driver, "waiting", "TIDE-SRC-002")
        until_stalled(drivers, driver, "TIDE-SRC-002")
        create_topic(servers, "outages", 2)
        send_events(servers, "outages", events[:100])
        until_bronze_has(iot, driver, 100)

        kill_broker(broker)
        drivers.wait_for_status(BRONZE, driver, "waiting", "TIDE-SRC-001")
        until_stalled(drivers, driver, "TIDE-SRC-001")
        start_broker(restartable)
        send_events(servers, "outages", events[100:])
        until_bronze_has(iot, driver, 300)

        # The source is empty and the driver polls it repeatedly, which counts as progress.
        drivers.wait_for_status(BRONZE, driver, "waiting")
        empty_at = said(drivers).source_empty_at
        eventually(lambda: said(drivers).source_empty_at != empty_at, "it looks again", START_TIMEOUT_SECONDS)
        assert stall(drivers, driver, within=timedelta(seconds=30)) is None

        # The client lives until its answer has come.
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics(["outages"])["outages"].result()
        until_stalled(drivers, driver, "TIDE-SRC-00")
        assert driver.terminate() == 0
    assert_bronze_holds(iot, events)


def said(drivers: Drivers) -> Status:
    """Return the driver's current status."""
    status = drivers.status(BRONZE)
    assert status is not None
    return status


def stall(drivers: Drivers, driver: DriverProcess, within: timedelta) -> Stall | None:
    """Return the stall that reconciliation would find with this limit."""
    status = said(drivers)
    running = StartedDriver(
        pipeline=BRONZE,
        mode="stream",
        run_id=driver.run_id,
        digest="d1",
        claimed_at=status.started_at,
        started_at=status.started_at,
        log=str(driver.log),
        process=f"pid {driver.process.pid}",
        alive=True,
    )
    facts = Facts(BRONZE, datetime.now(UTC), running=running, newest_status=status, progress_within=within)
    return stall_of(facts)


def until_stalled(drivers: Drivers, driver: DriverProcess, error: str) -> None:
    """Wait until the driver is alive and reports it, but makes no progress."""

    def is_told() -> bool:
        assert driver.is_running(), driver.output[-3000:]
        found = stall(drivers, driver, within=timedelta(seconds=1))
        return found is not None and error in found.reason and found.runbook == "source-unavailable"

    eventually(is_told, f"no progress, because of {error}", START_TIMEOUT_SECONDS)


def until_bronze_has(iot: IotLake, driver: DriverProcess, rows: int) -> None:
    def has() -> bool:
        assert driver.is_running(), driver.output[-3000:]
        return len(iot.bronze_rows()) >= rows

    eventually(has, f"bronze has {rows} rows", START_TIMEOUT_SECONDS)
