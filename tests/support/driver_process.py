"""A real driver as the runtime starts it: a separate process that a test can kill at any time."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.eventually import eventually
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.receipts import Receipt, newest_receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.driver_command import DriverRun, Mode, driver_command
from tidemill.names import FIRST_GENERATION
from tidemill.spec.project import Environment, load_environment
from tidemill.spec.project_folder import Project
from tidemill.storage.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]

# Seconds for a driver to commit a batch after its start. About 15 on two idle cores.
START_TIMEOUT_SECONDS = 120.0

# Seconds for a driver to end after SIGTERM: it finishes its batch and stops Spark.
END_TIMEOUT_SECONDS = 60.0


@dataclass
class DriverProcess:
    """One started driver.

    Args:
        process: Python, the leader of a process group with its JVM and Spark's Python workers.
        run_id: Id of the run.
        log: Everything it printed.
    """

    process: subprocess.Popen[bytes]
    run_id: str
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL to Python, its JVM and workers at once, as when a pod is killed."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_python_only(self) -> None:
        """Send SIGKILL only to Python, as the OOM killer would; the JVM ends when it notices."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(END_TIMEOUT_SECONDS)

    def wait(self, timeout_seconds: float) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(timeout_seconds)


@dataclass
class Drivers:
    """The drivers of one project, and the processes that were started.

    Args:
        project: Folder of the project.
        variables: Environment variables in addition to those of this process.
        command: Makes a driver's command line.
    """

    project: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    command: Callable[[Environment, DriverRun], list[str]] = driver_command
    started: list[DriverProcess] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def environment(self) -> Environment:
        return load_environment(Project(self.project), "local", {})

    @property
    def store(self) -> Store:
        return Store(self.environment.layout.root)

    def start(self, pipeline: str, mode: Mode = "stream", *arguments: str) -> DriverProcess:
        """Start a driver; returns at once."""
        run_id = f"run-{next(self._numbers)}"
        command = self.command(self.environment, DriverRun(pipeline, mode, run_id, arguments))
        log = self.project / f"{pipeline}-{run_id}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
                env={**os.environ, **self.variables, "PYTHONPATH": str(REPOSITORY / "spark_apps")},
                start_new_session=True,
            )
        driver = DriverProcess(process, run_id, log)
        self.started.append(driver)
        return driver

    def status(self, pipeline: str) -> Status | None:
        return read_status(self.store, self.environment.layout, pipeline)

    def receipt(self, pipeline: str) -> Receipt | None:
        return newest_receipt(self.store, self.environment.layout, pipeline)

    def committed(self, pipeline: str) -> int:
        """Return the newest batch in the checkpoint's commits; -1 before the first."""
        path = self.environment.layout.checkpoint(pipeline, FIRST_GENERATION)
        last = CheckpointBatches(self.store, path).last_committed()
        return -1 if last is None else last

    def wait_for_status(
        self, pipeline: str, driver: DriverProcess, expected: str, error_id: str = ""
    ) -> Status:
        """Wait until this driver says that it is in a state, and with an error if one is named."""

        def seen() -> Status | None:
            assert driver.is_running(), driver.output[-3000:]
            status = self.status(pipeline)
            if status is None or status.run_id != driver.run_id or status.state != expected:
                return None
            return status if ((status.error or {}).get("id", "") == error_id) else None

        return eventually(seen, f"{pipeline} is {expected} {error_id}", START_TIMEOUT_SECONDS)  # type: ignore[return-value]

    def wait_for_batch(
        self,
        pipeline: str,
        driver: DriverProcess,
        after: int = -1,
        timeout_seconds: float = START_TIMEOUT_SECONDS,
    ) -> int:
        """Wait until a batch above `after` is in the checkpoint; its number."""

        def seen() -> bool:
            assert driver.is_running(), driver.output[-3000:]
            return self.committed(pipeline) > after

        eventually(seen, f"{pipeline} commits a batch after {after}", timeout_seconds)
        return self.committed(pipeline)

    def end_all(self) -> None:
        """Kill what still runs, JVMs of killed drivers included."""
        for driver in self.started:
            driver.kill()


@contextmanager
def drivers_of(project: Path, variables: Mapping[str, str] | None = None) -> Iterator[Drivers]:
    """Yield the drivers of a project, and end them after the block."""
    drivers = Drivers(project, variables or {})
    try:
        yield drivers
    finally:
        drivers.end_all()
