"""What the control plane needs from a place where drivers run, and the words for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from tidemill.control.driver_command import DriverRun, Mode

# A stream and an incremental run of one pipeline exclude each other: both move its checkpoint. A
# backfill has a slot of its own, so that it can run beside the stream.
Slot = Literal["main", "backfill"]


def slot_of(mode: Mode) -> Slot:
    """Which place of its pipeline a driver occupies."""
    return "backfill" if mode == "backfill" else "main"


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
    stuck: str = ""

    def is_overdue(self, now: datetime, grace_period: timedelta) -> bool:
        """Whether it was asked to stop longer ago than a drain may take."""
        asked_at = self.drain_requested_at
        return asked_at is not None and now - asked_at > grace_period


@dataclass(frozen=True)
class StartResult:
    """The driver that runs now, and whether this call started it."""

    driver: StartedDriver
    started: bool


class Memory(Protocol):
    """One text about a pipeline that outlives its drivers, kept where they run."""

    def read(self) -> str | None:
        """The text; None if there is none."""

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace the text by what `edit` makes of it; of racing callers each edits the other's result."""


class Runtime(Protocol):
    """A place where drivers run. Every method returns at once; nothing waits for a driver."""

    def start(self, run: DriverRun, digest: str) -> StartResult:
        """Start a driver unless one holds the slot; of racing callers one starts, all see its driver."""

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

    def running_pipelines(self) -> list[str]:
        """Pipelines whose main slot is held, declared or not."""

    def memory(self, pipeline: str) -> Memory:
        """Where the history of a pipeline's drivers is kept."""

    def traces(self, driver: StartedDriver) -> list[str]:
        """What a driver's place tells of it, for a person who asks why: its newest log lines, events."""
