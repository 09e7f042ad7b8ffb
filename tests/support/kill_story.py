"""Drivers that are killed at random moments while events flow."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Pace, ProduceReport, Target, produce
from tidemill.names import FIRST_GENERATION

# Kills without a committed batch before a driver is given the time for one.
PATIENCE = 3


class Flow:
    """Generated events that flow into a topic until `stop`."""

    def __init__(self, target: Target, settings: IotSettings, events_per_second: float) -> None:
        self._stop = threading.Event()
        self._reports: list[ProduceReport] = []
        self._thread = threading.Thread(target=self._run, args=(target, settings, Pace(events_per_second)))
        self._thread.start()

    def stop(self) -> int:
        """Stop, and return the number of events that the broker has accepted."""
        self._stop.set()
        self._thread.join()
        (report,) = self._reports
        return report.total

    def _run(self, target: Target, settings: IotSettings, pace: Pace) -> None:
        self._reports.append(produce(target, settings, pace, self._stop))


@contextmanager
def flowing(target: Target, settings: IotSettings, events_per_second: float) -> Iterator[Flow]:
    """Yield events that flow during a `with` block, or until they are stopped in it."""
    flow = Flow(target, settings, events_per_second)
    try:
        yield flow
    finally:
        flow.stop()


@dataclass
class Kills:
    """Kills drivers of one pipeline, each at its moment, and starts the next.

    Args:
        drivers: Drivers of the project.
        pipeline: Name of the pipeline.
        chance: Decides whether Python alone or its JVM too is killed.
        phases: Number of killed drivers in each phase.
        without_progress: Kills since the last committed batch.
        over: Once set, the driver of the moment is killed at once.
        batch_timeout_seconds: Maximum time of a driver until its next batch, if the story waits for it.
    """

    drivers: Drivers
    pipeline: str
    chance: random.Random
    phases: Counter[str] = field(default_factory=Counter)
    without_progress: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    batch_timeout_seconds: float = START_TIMEOUT_SECONDS

    def after_start(self, seconds: float) -> None:
        """Start a driver, and kill it after this time."""
        self._kill(self.drivers.start(self.pipeline), seconds)

    def at_a_random_moment(self, earliest: float, latest: float) -> None:
        """Start a driver and kill it between two times after; after some without a batch, wait for one."""
        before = self.drivers.committed(self.pipeline)
        seconds = self.chance.uniform(earliest, latest)
        if self.without_progress < PATIENCE:
            self.after_start(seconds)
        else:
            self.after_batch(seconds - earliest)
        progressed = self.drivers.committed(self.pipeline) > before
        self.without_progress = 0 if progressed else self.without_progress + 1

    def after_batch(self, seconds: float) -> None:
        """Start a driver, and kill it at this time after it has committed a batch."""
        before = self.drivers.committed(self.pipeline)
        driver = self.drivers.start(self.pipeline)
        self.drivers.wait_for_batch(self.pipeline, driver, before, self.batch_timeout_seconds)
        self._kill(driver, seconds)

    def _kill(self, driver: DriverProcess, seconds: float) -> None:
        self.over.wait(seconds)
        assert driver.is_running(), f"the driver ended by itself: {driver.output[-3000:]}"
        self.phases[self._phase(driver)] += 1
        if self.chance.random() < 0.5:
            driver.kill()
        else:
            driver.kill_python_only()

    def _phase(self, driver: DriverProcess) -> str:
        status = self.drivers.status(self.pipeline)
        path = self.drivers.environment.layout.checkpoint(self.pipeline, FIRST_GENERATION)
        planned = CheckpointBatches(self.drivers.store, path).last_planned()
        in_a_batch = planned is not None and planned > self.drivers.committed(self.pipeline)
        if status is None or status.run_id != driver.run_id or status.state == "starting":
            return "in its first batch" if in_a_batch else "before its first batch"
        return "in a later batch" if in_a_batch else "between batches"


def beside(kills: Kills, life: Callable[[], None], act: Callable[[], None]) -> None:
    """Lives of a stream, one after the other, each ended by a kill, while something is done.

    Afterwards no driver runs. If one fails, that is raised, and not what could not be done without it.
    """
    kills.over.clear()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(_again, life, kills.over)
        try:
            act()
        finally:
            kills.over.set()
            running.result()


def _again(act: Callable[[], None], over: threading.Event) -> None:
    while not over.is_set():
        act()
