"""Drivers as processes of this machine: they outlive their starter and are never started twice.

In `Environment.run_folder`, for each slot (`<pipeline>`, `<pipeline>.backfill`, `.verb` and `.aside`):

    <slot>.lock         held by the driver for its whole life; enforced by the kernel
    <slot>.json         the newest start: run, process identity, log
    <slot>.drain        the run that was asked to stop, and the time
    <slot>.heartbeat    the driver's last sign of life, and its exit code
    logs/<slot>/        one file per start, the newest kept
    control-plane.id    identifies the control plane of the folder's processes
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.control.driver_log import LogNews, LogPosition
from tidemill.control.driver_variables import RUN_ID_VARIABLE, driver_variables, started_by
from tidemill.control.local.drain_note import drain_requested_at, write_drain_note
from tidemill.control.local.driver_record import DriverRecord, machine_trouble, read_record, write_record
from tidemill.control.local.local_identity import local_identity
from tidemill.control.local.local_launch import Launch, launch, new_log
from tidemill.control.local.local_memory import LocalMemory
from tidemill.control.local.log_file import read_log_file
from tidemill.control.local.own_children import collect
from tidemill.control.local.process_identity import POLL_SECONDS
from tidemill.control.local.process_session import kill_marked_processes
from tidemill.control.local.slot_lock import try_lock
from tidemill.control.runtime import Identity, MainSlot, Slot, StartedDriver, StartResult, slot_of
from tidemill.engine.heartbeat import HEARTBEAT_VARIABLE, HeartbeatRecord, read_heartbeat
from tidemill.errors import TidemillError, UnavailableError
from tidemill.spec.project import Environment

# Seconds for a killed driver's JVM to end. SIGKILL takes effect at once unless a disk hangs.
KILL_TIMEOUT_SECONDS = 10

# Seconds for a starter from the lock to the record: two small writes.
RECORD_TIMEOUT_SECONDS = 10

CommandBuilder = Callable[[Environment, DriverRun], list[str]]


@dataclass
class LocalRuntime:
    """Drivers as detached processes.

    Args:
        environment: The environment of the drivers.
        command: Builds the command line of a driver.
        variables: Environment variables from which the driver's variables are chosen.
    """

    environment: Environment
    command: CommandBuilder = driver_command
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def of(self, environment: Environment) -> LocalRuntime:
        """Return the same runtime for another version's environment."""
        return replace(self, environment=environment)

    def identity(self) -> Identity:
        """Return the identity of this run folder's control plane."""
        return local_identity(self._folder)

    def start(self, run: DriverRun, digest: str) -> StartResult:
        """Start a driver unless one holds the slot.

        1. Take the slot's lock. 2. Kill the remains of a killed driver. 3. Write the record. 4. Start the
        process, which inherits the lock and signs the record. A starter that dies in between has started
        either nothing, or a driver that its record identifies.

        Raises:
            UnavailableError: TIDE-CTRL-002, if processes of a killed driver cannot be ended; TIDE-CTRL-003,
                if another process than a driver holds the slot; TIDE-CTRL-009, if the machine cannot create a
                process.
        """
        slot = slot_of(run.mode)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with try_lock(self._file(run.pipeline, slot, "lock")) as descriptor:
                if descriptor is None:
                    return StartResult(self._holder(run.pipeline, slot), started=False)
                self._end_remains(run.pipeline, slot)
                return StartResult(self._make(run, digest, descriptor), started=True)
        except OSError as error:
            raise UnavailableError(
                "TIDE-CTRL-009",
                "This machine could not make the driver's process.",
                facts={"pipeline": run.pipeline, "cause": f"{type(error).__name__}: {error}"},
                fix="see memory, processes and the disk of this machine; it is tried again by itself",
                runbook="stream-does-not-start",
            ) from error

    def check(self, run: DriverRun) -> None:
        """Check that the drivers' dependencies are installed, because drivers run on this machine.

        Raises:
            UnavailableError: TIDE-CTRL-030.
        """
        if importlib.util.find_spec("pyspark") is None:
            raise UnavailableError(
                "TIDE-CTRL-030",
                "This needs Spark, and there is none where this command runs. Nothing was changed.",
                facts={"pipeline": run.pipeline, "part": run.module, "python": sys.executable},
                fix="run it where drivers run, or install tidemill[spark] here",
                runbook="spark-part-failed",
            )

    def last_start(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        """Return the newest start in a slot, running or ended; None if there was none."""
        collect()
        file = self._file(pipeline, slot, "json")
        record = read_record(file)
        if record is None:
            return None
        process = f"pid {record.identity.pid}" if record.identity else "starting"
        seen = _describe(record, process, record.is_alive(), drain_requested_at(file, record))
        return _with_heartbeat(seen, read_heartbeat(self._file(pipeline, slot, "heartbeat")))

    def drain(self, driver: StartedDriver) -> bool:
        """Ask a driver to finish its batch and stop; False if it has ended.

        The request is recorded before the signal. If this process dies in between, the next request sends the
        signal. A second signal has no further effect, and the first record keeps the time of the drain.
        """
        record = self._record_of(driver)
        if record is None or not record.is_alive():
            return False
        file = self._file(driver.pipeline, slot_of(driver.mode), "json")
        if drain_requested_at(file, record) is None:
            write_drain_note(file, record)
        signed = self._record_of(driver)
        # If it has not signed yet, the process finds the note before it becomes the driver.
        return signed is None or signed.identity is None or signed.identity.signal(signal.SIGTERM)

    def kill(self, driver: StartedDriver) -> bool:
        """End a driver and its processes at once; False if it has ended."""
        record = self._record_of(driver)
        if record is None or record.identity is None:
            return False
        killed = record.identity.signal(signal.SIGKILL)
        record.identity.wait_until_gone(KILL_TIMEOUT_SECONDS)
        self._end_remains(driver.pipeline, slot_of(driver.mode))
        return killed

    def put_away(self, driver: StartedDriver) -> None:
        """Do nothing, because an ended process stays ended."""

    def memory(self, pipeline: str) -> LocalMemory:
        """Return the storage of a pipeline's driver history."""
        return LocalMemory(self._folder, pipeline)

    def read_log(self, driver: StartedDriver, since: LogPosition | None = None) -> LogNews:
        """Return the new lines of its log file."""
        return read_log_file(driver, since)

    def main_slots(self) -> dict[str, MainSlot | TidemillError]:
        """Return the main slots of all pipelines that were ever started here."""
        names = sorted(file.stem for file in self._folder.glob("*.json") if "." not in file.stem)
        return {name: self._main_slot(name) for name in names}

    def _main_slot(self, pipeline: str) -> MainSlot | TidemillError:
        try:
            return MainSlot(self.last_start(pipeline), self.memory(pipeline).read())
        except TidemillError as error:
            return error
        except OSError as error:
            return machine_trouble(error)

    @property
    def _folder(self) -> Path:
        return self.environment.run_folder

    def _file(self, pipeline: str, slot: Slot, ending: str) -> Path:
        return self._folder / f"{_slot_name(pipeline, slot)}.{ending}"

    def _holder(self, pipeline: str, slot: Slot) -> StartedDriver:
        """Return the driver that holds the slot; waits while its starter writes the record."""
        deadline = time.monotonic() + RECORD_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            holder = self.last_start(pipeline, slot)
            if holder is not None and holder.alive:
                return holder
            time.sleep(POLL_SECONDS)
        raise UnavailableError(
            "TIDE-CTRL-003",
            "The slot of a driver is held by a process that is not the driver of its record.",
            facts={"pipeline": pipeline, "lock": self._file(pipeline, slot, "lock")},
            fix="see who holds it with lsof, end that process, then start again",
            runbook="stream-does-not-start",
        )

    def _record_of(self, driver: StartedDriver) -> DriverRecord | None:
        """Return the record if it still describes exactly this start."""
        record = read_record(self._file(driver.pipeline, slot_of(driver.mode), "json"))
        same = record is not None and (record.run_id, record.started_at) == (driver.run_id, driver.started_at)
        return record if same else None

    def _make(self, run: DriverRun, digest: str, lock: int) -> StartedDriver:
        slot = slot_of(run.mode)
        file, heartbeat = (self._file(run.pipeline, slot, ending) for ending in ("json", "heartbeat"))
        log = new_log(self._folder / "logs" / _slot_name(run.pipeline, slot))
        record = DriverRecord(
            pipeline=run.pipeline,
            mode=run.mode,
            run_id=run.run_id,
            digest=digest,
            started_at=datetime.now(UTC),
            log=str(log),
        )
        # Delete the former driver's heartbeat, so that it is not attributed to this one.
        heartbeat.unlink(missing_ok=True)
        write_record(file, record)
        told = started_by(run.run_id, self.identity().id, run.dag_run)
        own = {**told, HEARTBEAT_VARIABLE: str(heartbeat)}
        variables = driver_variables(self.variables, own)
        command = self.command(self.environment, run)
        try:
            pid = launch(Launch(file, command, log, self.environment.project.folder, variables, lock))
        except OSError as error:
            write_record(file, record.model_copy(update={"not_made": f"{type(error).__name__}: {error}"}))
            raise
        return _describe(record, f"pid {pid}", alive=True)

    def _end_remains(self, pipeline: str, slot: Slot) -> None:
        """End the processes of the slot's killed driver, because its JVM may still be writing."""
        record = read_record(self._file(pipeline, slot, "json"))
        if record is None or record.identity is None:
            return
        mark = f"{RUN_ID_VARIABLE}={record.run_id}"
        if not kill_marked_processes(record.identity.pid, mark, KILL_TIMEOUT_SECONDS):
            raise UnavailableError(
                "TIDE-CTRL-002",
                "Processes of a killed driver cannot be ended, so no new one is started.",
                facts={"pipeline": pipeline, "session": record.identity.pid, "run_id": record.run_id},
                fix="they wait for a disk or a network mount; look at them with ps -s SESSION",
                runbook="stream-does-not-start",
            )


def _slot_name(pipeline: str, slot: Slot) -> str:
    return pipeline if slot == "main" else f"{pipeline}.{slot}"


def _describe(
    record: DriverRecord, process: str, alive: bool, drain_requested_at: datetime | None = None
) -> StartedDriver:
    return StartedDriver(
        pipeline=record.pipeline,
        mode=record.mode,
        run_id=record.run_id,
        digest=record.digest,
        claimed_at=record.started_at,
        started_at=record.started_at,
        log=record.log,
        process=process,
        alive=alive,
        drain_requested_at=drain_requested_at,
        termination=record.not_made,
        made=alive or record.was_made,
    )


def _with_heartbeat(driver: StartedDriver, heartbeat: HeartbeatRecord | None) -> StartedDriver:
    """Return the driver with its silence or its exit code, from the heartbeat."""
    if heartbeat is None:
        return driver
    if driver.alive:
        return replace(driver, silence=heartbeat.silence)
    if heartbeat.exit_code is None:
        return driver
    words = ", ".join(filter(None, [f"exit {heartbeat.exit_code}", heartbeat.error_id]))
    return replace(driver, exit_code=heartbeat.exit_code, termination=driver.termination or words)
