"""`make bench-drain`: time that a running stream takes to end after SIGTERM, under load.

Real drivers read events from a real broker without a pause between batches, and each gets its SIGTERM at a
random moment. The guarantee is *within one batch*: the running batch ends, and no other one begins. The time
until the process is gone (including Spark's own stop) is printed next to the time of that batch.

The bench fails if a drain is not clean, if a batch begins after the request, or if an event is lost or
duplicated.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers, drivers_of
from tests.support.iot_lake import (
    START,
    IotLake,
    assert_bronze_holds,
    closing_event,
    counts_by_window,
    iot_topic,
    send_events,
    take,
)
from tests.support.kafka import Kafka
from tests.support.kill_story import flowing
from tidemill.dev.broker import running_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.dev.iot_events import Event, IotSettings
from tidemill.dev.produce import Target
from tidemill.names import FIRST_GENERATION

PIPELINES = ("iot_events_bronze", "iot_device_windows")

# Batches before the request: the first ones of a driver compile code, and are not what a drain meets.
WARM_BATCHES = 3

# Longest that the request waits for its random moment, in seconds: some batches.
LATEST_SECONDS = 3.0

SETTINGS = IotSettings(
    start=START, seed=5, interval=timedelta(milliseconds=100), devices=50, broken_rate=0.01
)


@dataclass(frozen=True)
class DrainTimes:
    """One drain, in seconds.

    Args:
        batch: Total time of the last batch.
        batch_ended: Time from SIGTERM until Spark had recorded the batch's end; 0 if no batch was running.
        exited: Time from SIGTERM until the process had ended.
        refused: True if a batch that Spark had planned was refused.
    """

    batch: float
    batch_ended: float
    exited: float
    refused: bool


@dataclass
class DrainBench:
    """Drains of the drivers of one project."""

    drivers: Drivers
    chance: random.Random

    def drain(self, pipeline: str) -> DrainTimes:
        """Start a driver, let it run, end it by SIGTERM."""
        warm = self.drivers.committed(pipeline) + WARM_BATCHES
        driver = self.drivers.start(pipeline)
        self.drivers.wait_for_batch(pipeline, driver, warm)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(self.chance.uniform(0, LATEST_SECONDS))
        asked = time.time()
        code = driver.terminate()
        exited = time.time() - asked
        receipt = self.drivers.receipt(pipeline)
        if code != 0 or receipt is None or (receipt.result, receipt.run_id) != ("clean", driver.run_id):
            raise SystemExit(f"not a clean drain: {code} {receipt}\n{driver.output[-3000:]}")
        last = self.drivers.committed(pipeline)
        if self._moment(pipeline, f"offsets/{last}") > asked:
            raise SystemExit(f"batch {last} of {pipeline} began after the request")
        ended = max(0.0, self._moment(pipeline, f"commits/{last}") - asked)
        return DrainTimes(_batch_seconds(driver, last), ended, exited, receipt.unfinished_batch is not None)

    def _moment(self, pipeline: str, file: str) -> float:
        """Return the time when Spark wrote a file of the checkpoint."""
        checkpoint = self.drivers.environment.layout.checkpoint(pipeline, FIRST_GENERATION)
        return (Path(checkpoint) / file).stat().st_mtime


def _batch_seconds(driver: DriverProcess, batch_id: int) -> float:
    """Return the duration of a batch from the driver's log."""
    for line in driver.output.splitlines():
        if '"event": "batch"' in line and (said := json.loads(line))["batch_id"] == batch_id:
            return float(said["milliseconds"]) / 1000
    raise SystemExit(f"the driver does not tell of batch {batch_id}: {driver.output[-3000:]}")


def measure(folder: Path, drains: int, events_per_second: float) -> dict[str, list[DrainTimes]]:
    """Measure this number of drains of each pipeline, alternately, then count all events."""
    with running_broker(BrokerConfig(folder / "broker")) as broker:
        topic = iot_topic(Kafka(broker, folder), partitions=4)
        iot = IotLake(folder / "lake", None, broker.bootstrap_servers, topic)
        times: dict[str, list[DrainTimes]] = {pipeline: [] for pipeline in PIPELINES}
        target = Target(broker.bootstrap_servers, topic)
        with drivers_of(iot.lake.folder) as drivers:
            bench = DrainBench(drivers, random.Random(1))
            with flowing(target, SETTINGS, events_per_second) as flow:
                for number in range(drains):
                    for pipeline in PIPELINES:
                        times[pipeline].append(bench.drain(pipeline))
                        _tell(number + 1, pipeline, times[pipeline][-1])
                events = take(SETTINGS, flow.stop())
            _count(iot, drivers, topic, events)
    return times


def _count(iot: IotLake, drivers: Drivers, topic: str, events: list[Event]) -> None:
    """Read the rest, and compare the rows with the sent events."""
    send_events(iot.lake.bootstrap_servers, topic, [closing_event()])
    for pipeline in PIPELINES:
        if drivers.start(pipeline, "incremental").wait(START_TIMEOUT_SECONDS) != 0:
            raise SystemExit(f"the rest of {pipeline} could not be read")
    assert_bronze_holds(iot, [*events, closing_event()])
    if iot.counts() != counts_by_window(events):
        raise SystemExit("windows differ from what was sent")
    print(f"\n{len(events):,} events: each in its table once, each in its window once")


def _tell(number: int, pipeline: str, times: DrainTimes) -> None:
    print(
        f"drain {number:2} {pipeline:20} running batch ended {times.batch_ended:5.2f} s after the request "
        f"(it took {times.batch:5.2f} s in all), process {times.exited:5.2f} s"
        + (", a planned batch was refused" if times.refused else ""),
        flush=True,
    )


def _summary(name: str, seconds: Sequence[float]) -> str:
    return f"  {name:40} median {statistics.median(seconds):5.2f} s  slowest {max(seconds):5.2f} s"


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--drains", type=int, default=5, help="drains of each of the two pipelines")
    parser.add_argument("--events-per-second", type=float, default=1000.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemill-drain-") as folder:
        found = measure(Path(folder), arguments.drains, arguments.events_per_second)
    for pipeline, times in found.items():
        print(f"\n{pipeline}: {len(times)} drains, all receipts clean, 0 batches begun after the request")
        print(_summary("the batch that ran, in all", [each.batch for each in times]))
        print(_summary("request to the end of the batch", [each.batch_ended for each in times]))
        print(_summary("request to the end of the process", [each.exited for each in times]))


if __name__ == "__main__":
    main()
