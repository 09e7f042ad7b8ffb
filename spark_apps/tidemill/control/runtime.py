"""What the control plane needs from a place where drivers run, and the words for it."""

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

# A stream and an incremental run of one pipeline exclude each other: both move its checkpoint. A
# backfill has a slot of its own, so that it can run beside the stream; and so have parts, of either mode.
Slot = Literal["main", "backfill", "verb", "aside"]
_SLOTS: dict[Mode, Slot] = {
    "stream": "main",
    "incremental": "main",
    "backfill": "backfill",
    "verb": "verb",
    "aside": "aside",
}


def slot_of(mode: Mode) -> Slot:
    """Which place of its pipeline a driver occupies."""
    return _SLOTS[mode]


@dataclass(frozen=True)
class StartedDriver:
    """One start of a driver, whether it still runs or not.

    Args:
        pipeline: Its pipeline.
        mode: Its mode.
        run_id: Names the run in status, receipts and ledger.
        digest: Digest of the declaration it was started with.
        claimed_at: When the control plane decided on this start, by its own clock.
        started_at: When. With `run_id` it tells one start from a later one of the same run.
        log: Where its output goes, for a person to read.
        process: Where it runs, for a person to read: `pid 4711`.
        alive: Whether it runs.
        drain_requested_at: When it was asked to stop.
        termination: How its process ended, where its place knows: `OOMKilled, exit 137`.
        exit_code: With which its process ended, where its place knows.
        made: False if it has ended without ever having become a process or a pod.
        silence: Time since its last sign of life, where its place knows.
        stuck: Why it neither works nor ends, and will not without a person, where its place knows.
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
        """Whether it was asked to stop longer ago than a drain may take."""
        asked_at = self.drain_requested_at
        return asked_at is not None and now - asked_at > grace_period


@dataclass(frozen=True)
class Identity:
    """Which control plane this is.

    Args:
        id: Tells it from every other one. All its processes have the same, today and after a restart, an
            upgrade or a reinstallation.
        place: Where it is, for a person: a folder, or a namespace.
    """

    id: str
    place: str


@dataclass(frozen=True)
class StartResult:
    """The driver that runs now, and whether this call started it."""

    driver: StartedDriver
    started: bool


@dataclass(frozen=True)
class MainSlot:
    """What one look tells of a pipeline's main slot.

    Args:
        start: The newest start, running or ended; None if there never was one.
        memory: The text of the pipeline's memory.
    """

    start: StartedDriver | None = None
    memory: str | None = None


def is_held(slot: MainSlot | TidemillError) -> bool:
    """Whether a driver lives in a slot, or may: whoever visits one that cannot be read will say why."""
    return isinstance(slot, TidemillError) or (slot.start is not None and slot.start.alive)


class Memory(Protocol):
    """One text about a pipeline that outlives its drivers, kept where they run."""

    def read(self) -> str | None:
        """The text; None if there is none."""

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace the text by what `edit` makes of it; of racing callers each edits the other's result."""


class Runtime(Protocol):
    """A place where drivers run. Every method returns at once; nothing waits for a driver."""

    def of(self, environment: Environment) -> Runtime:
        """The same place, where drivers are started as another version declares them."""

    def identity(self) -> Identity:
        """Which control plane starts drivers here: who shares its slots shares its identity."""

    def start(self, run: DriverRun, digest: str) -> StartResult:
        """Start a driver unless one holds the slot; of racing callers one starts, all see its driver."""

    def check(self, run: DriverRun) -> None:
        """See that a run could be started here; starts and keeps nothing.

        Raises:
            TidemillError: Why it could not.
        """

    def last_start(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        """The newest start in a slot, running or ended; None if there never was one."""

    def drain(self, driver: StartedDriver) -> bool:
        """Ask a driver to finish its batch and stop; False if it has ended.

        Asked again it changes nothing, except that it completes what failed half-way the time before.
        """

    def kill(self, driver: StartedDriver) -> bool:
        """End a driver at once, with all it started; False if it has ended."""

    def put_away(self, driver: StartedDriver) -> None:
        """See that the place does not start an ended driver again by itself."""

    def main_slots(self) -> dict[str, MainSlot | TidemillError]:
        """The main slots of all pipelines that were ever started here, in one look however many there are.

        One that cannot be read is there with its error, and stands in the way of no other.
        """

    def memory(self, pipeline: str) -> Memory:
        """Where the history of a pipeline's drivers is kept."""

    def read_log(self, driver: StartedDriver, since: LogPosition | None = None) -> LogNews:
        """What a driver's place tells of it, for a person: events and log lines that are new since then.

        There is a bound to each look. Without `since`, or with that of another start, it begins anew.
        """
