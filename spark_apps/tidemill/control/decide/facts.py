"""Facts about one pipeline at one time, the input of all decisions about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.holds import Hold
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.rollback import Rollback
from tidemill.control.runtime import StartedDriver
from tidemill.errors import TidemillError


@dataclass(frozen=True)
class Facts:
    """Facts about one pipeline at one time.

    Args:
        pipeline: Its name.
        mode: Declared mode; None if its file is gone.
        digest: Digest of the version that should run: the defined one, or the previous one if the defined one
            was given up; None without a definition.
        kept: Digest of the newest version that made progress and could be started again.
        rollback: Set if the defined version was given up.
        back_to: Digest of the version to go back to if the defined one makes no progress; None if there is
            none.
        problem: Error of the declaration.
        by_hand: True if it runs only on request, because it is for trying out or not for this environment.
        grace_period: Maximum time for a drain before the driver is killed.
        on_change: The environment's policy for a running stream whose definition has changed.
        objection: Reason why the changed definition could not continue from the checkpoint; None if it can,
            or if the answer is not needed.
        is_planned: False if Spark must plan the changed definition before this is known.
        desired: Requested state; None without a request.
        running: The driver in the main slot.
        ended: The newest driver of the main slot, if it no longer runs.
        endings: Ends of its drivers, oldest first.
        holds: Holds that prevent a start, if they caused the last failed start.
        newest_receipt: The newest receipt of any driver, including those on other machines.
        newest_status: The last status of any driver, including those on other machines.
        trigger: The stream's trigger.
        progress_within: Maximum time without progress.
        now: Time of these facts.
    """

    pipeline: str
    now: datetime
    mode: Literal["stream", "incremental"] | None = "stream"
    digest: str | None = None
    kept: str | None = None
    rollback: Rollback | None = None
    back_to: str | None = None
    problem: TidemillError | None = None
    by_hand: bool = False
    grace_period: timedelta = timedelta(seconds=120)
    on_change: Literal["leave", "restart"] = "leave"
    objection: TidemillError | None = None
    is_planned: bool = True
    desired: Desired | None = None
    running: StartedDriver | None = None
    ended: StartedDriver | None = None
    endings: tuple[Ending, ...] = ()
    holds: tuple[Hold, ...] = ()
    newest_receipt: Receipt | None = None
    newest_status: Status | None = None
    trigger: timedelta = timedelta()
    progress_within: timedelta = timedelta(minutes=10)

    @property
    def is_wanted(self) -> bool:
        """Return True if it should run: a declared stream that was not stopped, or one that was started.

        A suspension whose end has passed no longer stops it.
        """
        if self.desired is None:
            return self.mode == "stream" and not self.by_hand
        return self.mode == "stream" and self.desired.runs(self.now)

    @property
    def unfinished_run(self) -> Ending | None:
        """Return the newest run of a scheduled pipeline if it ended before it had finished."""
        if self.mode != "incremental" or self.running is not None or not self.endings:
            return None
        last = self.endings[-1]
        return None if last.is_finished else last

    @property
    def counted_endings(self) -> list[Ending]:
        """Return the endings that count: those since the last change of the declaration or last request.

        A changed declaration and a new request both allow a fresh try.
        """
        return [ending for ending in self.endings if self._counts(ending)]

    def _counts(self, ending: Ending) -> bool:
        asked_later = self.desired is not None and self.desired.at > ending.ended_at
        return ending.digest == self.digest and not asked_later
