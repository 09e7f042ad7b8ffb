"""The interface of a runtime, in which drivers run, and its data types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol

from tidemill.control.driver_command import DriverRun, Mode
from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from tidemill.control.driver_log import LogNews, LogPosition
    from tidemill.spec.project import Environment

# A stream and an incremental run of one pipeline exclude each other, because both change its checkpoint. A
# backfill has a separate slot, so that it can run at the same time as the stream. Spark jobs of operations
# have separate slots as well.
Slot = Literal["main", "backfill", "verb", "aside"]
_SLOTS: dict[Mode, Slot] = {
    "stream": "main",
    "incremental": "main",
    "backfill": "backfill",
    "verb": "verb",
    "aside": "aside",
}


def slot_of(mode: Mode) -> Slot:
    """Return the slot that a driver of this mode occupies in its pipeline."""
    return _SLOTS[mode]


@dataclass(frozen=True)
class StartedDriver:
    """One start of a driver, which may have ended.

    Args:
        pipeline: Its pipeline.
        mode: Its mode.
        run_id: Id of the run in status, receipts and ledger.
        digest: Digest of the declaration it was started with.
        claimed_at: Time of the decision to start it, by the control plane's clock.
        started_at: Start time, which distinguishes it from later starts of the same run.
        log: Readable location of its output.
        process: Readable description of its process: `pid 4711`.
        alive: True if it runs.
        drain_requested_at: Time of the stop request.
        termination: End of its process, if the runtime knows it: `OOMKilled, exit 137`.
        exit_code: Exit code of its process, if the runtime knows it.
        made: False if it has ended without ever becoming a process or a pod.
        silence: Time since its last sign of life, if the runtime knows it.
        stuck: Reason why it neither works nor ends and needs an operator, if the runtime knows it.
    """

    pipeline: str
    mode: Mode
    run_id: str
    digest: str
    claimed_at: datetime
    started_at: datetime
    log: str
    process: str
    alive: bool
    drain_requested_at: datetime | None = None
    termination: str = ""
    exit_code: int | None = None
    made: bool = True
    silence: timedelta | None = field(default=None, compare=False)
    stuck: str = ""

    def is_overdue(self, now: datetime, grace_period: timedelta) -> bool:
        """Return True if it was asked to stop longer ago than a drain may take."""
        asked_at = self.drain_requested_at
        return asked_at is not None and now - asked_at > grace_period


@dataclass(frozen=True)
class Identity:
    """Identity of a control plane.

    Args:
        id: Unique id. All its processes share it, even after a restart, an upgrade or a reinstallation.
        place: Readable location: a folder or a namespace.
    """

    id: str
    place: str


@dataclass(frozen=True)
class StartResult:
    """The driver that runs now; `started` is True if this call started it."""

    driver: StartedDriver
    started: bool


@dataclass(frozen=True)
class MainSlot:
    """Content of a pipeline's main slot.

    Args:
        start: The newest start, running or ended; None if there was none.
        memory: Text of the pipeline's memory.
    """

    start: StartedDriver | None = None
    memory: str | None = None


def is_held(slot: MainSlot | TidemillError) -> bool:
    """Return True if a driver runs in the slot, or may, because the slot cannot be read."""
    return isinstance(slot, TidemillError) or (slot.start is not None and slot.start.alive)


class Memory(Protocol):
    """One text about a pipeline that outlives its drivers, stored where they run."""

    def read(self) -> str | None:
        """Return the text; None if there is none."""

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace the text by the result of `edit`; racing callers are serialized."""


class Runtime(Protocol):
    """A place where drivers run. Every method returns at once and waits for no driver."""

    def of(self, environment: Environment) -> Runtime:
        """Return the same runtime for another version's environment."""

    def identity(self) -> Identity:
        """Return the identity of the control plane, shared by all users of its slots."""

    def start(self, run: DriverRun, digest: str) -> StartResult:
        """Start a driver unless one holds the slot; racing callers all get the same driver."""

    def check(self, run: DriverRun) -> None:
        """Check that a run could be started here; starts and stores nothing.

        Raises:
            TidemillError: Reason why it could not.
        """

    def last_start(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        """Return the newest start in a slot, running or ended; None if there was none."""

    def drain(self, driver: StartedDriver) -> bool:
        """Ask a driver to finish its batch and stop; False if it has ended.

        A repeated request only completes a previous one that failed halfway.
        """

    def kill(self, driver: StartedDriver) -> bool:
        """End a driver and its processes at once; False if it has ended."""

    def put_away(self, driver: StartedDriver) -> None:
        """Prevent the runtime from restarting an ended driver by itself."""

    def main_slots(self) -> dict[str, MainSlot | TidemillError]:
        """Return the main slots of all pipelines that were ever started here, with a fixed number of calls.

        A slot that cannot be read is returned as its error and does not affect the others.
        """

    def memory(self, pipeline: str) -> Memory:
        """Return the storage of a pipeline's driver history."""

    def read_log(self, driver: StartedDriver, since: LogPosition | None = None) -> LogNews:
        """Return new events and log lines of a driver, in readable form.

        Each read is limited in size. Without `since`, or with a position of another start, it reads from the
        beginning.
        """
