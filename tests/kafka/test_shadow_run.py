"""Shadow runs of a live stream that reads the same topic, one of them killed."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.driver_process import Drivers
from tests.support.eventually import eventually
from tests.support.iot_lake import (
    START,
    IotLake,
    closing_event,
    counts_by_window,
    send_events,
    take,
)
from tests.support.kafka import Kafka
from tests.support.kill_story import flowing
from tests.support.running_stream import running_stream
from tidemill.checkpoint.upgrade.shadow import ShadowResult
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.shadow_run import run_shadow, stretch_of
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Target
from tidemill.engine.shadow import shadow
from tidemill.errors import TidemillError

SETTINGS = IotSettings(
    start=START,
    seed=33,
    interval=timedelta(seconds=5),
    devices=6,
    late_rate=0.05,
    duplicate_rate=0.05,
    broken_rate=0.02,
)
NAME = "iot_device_windows"
BATCHES = 2

# Seconds for the Spark part, which takes about 30 next to a driver on two cores.
PART_TIMEOUT_SECONDS = 300.0

ROUNDED_OTHERWISE = ('F.avg("temperature"), 6)', 'F.avg("temperature"), 1)')


@pytest.fixture
def iot(tmp_path: Path, spark: SparkSession, kafka: Kafka, topic: str) -> IotLake:
    # A pause between batches leaves CPU time for other processes.
    return IotLake(tmp_path / "lake", spark, kafka.bootstrap_servers, topic, trigger="3 seconds")


def change(iot: IotLake, old: str, new: str) -> None:
    file = iot.lake.folder / f"spark_apps/transforms/{NAME}.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def shadowed(iot: IotLake) -> ShadowResult:
    """Run a shadow of the newest batches, in a session in which no query has the pipeline's name."""
    pipeline = iot.windows.resolved
    stretch = stretch_of(open_control_plane(pipeline.environment), pipeline, BATCHES)
    return shadow(iot.lake.spark.newSession(), pipeline, stretch)


def by_name(found: ShadowResult) -> dict[str, tuple[int, int]]:
    return {table.name: (table.missing, table.surplus) for table in found.differences}


@pytest.mark.soak
def test_beside_its_stream_both_versions_are_compared_and_no_window_is_lost_or_sent_twice(
    kafka: Kafka, topic: str, iot: IotLake
) -> None:
    flow = flowing(Target(kafka.bootstrap_servers, topic), SETTINGS, events_per_second=200)
    with flow as events_sent, running_stream(iot.windows) as live:
        live.wait_until(lambda: len(iot.window_rows()) > 100, "it has closed windows")
        same = shadowed(iot)
        # The running code was read at the start. The file is the next version.
        change(iot, *ROUNDED_OTHERWISE)
        other = shadowed(iot)
        events = take(SETTINGS, events_sent.stop())
        send_events(kafka.bootstrap_servers, topic, [closing_event()])
        counts = counts_by_window(events)
        live.wait_until(lambda: iot.counts().keys() >= counts.keys(), "all windows are closed")
        live.drain()
    assert same.is_same, list(same.lines())
    tables = {table.name: table.rows for table in same.differences}
    assert tables["silver/iot_device_windows"] > 0
    assert tables["quarantine"] > 0
    assert same.left_out == {"sinks[2] (kafka)": "a shadow writes tables alone"}
    missing, surplus = by_name(other)["silver/iot_device_windows"]
    assert missing == surplus > 0
    assert by_name(other)["quarantine"] == (0, 0)
    assert iot.counts() == counts
    assert len(kafka.read(f"{topic}_alerts")) == len(iot.alert_rows())
    assert not list((iot.lake.root / "shadows").rglob("*"))


@pytest.mark.soak
def test_a_killed_shadow_run_is_repeated_beside_a_real_driver(
    kafka: Kafka, topic: str, iot: IotLake, drivers: Drivers
) -> None:
    """Killed with its JVM at five moments, from the copy's beginning to the last batch."""
    flow = flowing(Target(kafka.bootstrap_servers, topic), SETTINGS, events_per_second=100)
    with flow as events_sent:
        driver = drivers.start(NAME)
        drivers.wait_for_batch(NAME, driver, BATCHES + 1)
        pipeline = iot.windows.resolved
        plane = open_control_plane(pipeline.environment)
        for batches in range(5):
            kill_after(plane, iot, batches)
        stretch = stretch_of(plane, pipeline, BATCHES)
        found = run_shadow(plane, pipeline, stretch)
        events = take(SETTINGS, events_sent.stop())
        send_events(kafka.bootstrap_servers, topic, [closing_event()])
        counts = counts_by_window(events)
        eventually(lambda: iot.counts().keys() >= counts.keys(), "all windows", PART_TIMEOUT_SECONDS)
        assert driver.terminate() == 0
    assert found.is_same, list(found.lines())
    assert iot.counts() == counts
    assert not list((iot.lake.root / "shadows").rglob("*"))


def kill_after(plane: ControlPlane, iot: IotLake, batches: int) -> None:
    """Kill the part after its copy has made this number of batches."""
    pipeline = iot.windows.resolved
    stretch = stretch_of(plane, pipeline, BATCHES + 2)
    failed: list[TidemillError] = []

    def run() -> None:
        try:
            run_shadow(plane, pipeline, stretch)
        except TidemillError as error:
            failed.append(error)

    asking = threading.Thread(target=run)
    asking.start()
    commits = iot.lake.root / "shadows" / NAME / "state" / NAME
    wanted = {str(stretch.after + number) for number in range(1, batches + 1)}
    eventually(
        lambda: wanted <= {file.name for file in commits.glob("g*/commits/*")} and commits.exists(),
        "the copy has made them",
        PART_TIMEOUT_SECONDS,
    )
    part = plane.running(NAME, "aside")
    assert part is not None
    plane.runtime.kill(part)
    asking.join()
    assert [error.error_id for error in failed] == ["TIDE-CKPT-077"]
