"""What is known of one pipeline at one moment: all that decisions about it are made from."""

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
    """What is known of one pipeline at one moment.

    Args:
        pipeline: Its name.
        mode: Mode that conf declares; None if its file is gone.
        digest: Digest of the version that should run: as defined, or the one before it if the defined one
            was given up; None without a definition.
        kept: Digest of the newest version that made progress and could be started again.
        rollback: That the defined version was given up.
        back_to: Digest of the version to go back to, if the defined one makes no progress; None for none.
        problem: Why the declaration cannot be used.
        by_hand: Whether it runs only when someone has asked for it: it is for trying out, or not for here.
        grace_period: How long a driver may drain before it is killed.
        on_change: What the environment wants done about a running stream whose definition changed.
        objection: Why the changed definition could not go on from the checkpoint; None if it can, or if
            nobody needs to know.
        is_planned: Whether it is known if it could; else Spark must plan it first.
        desired: What a person asked for; None if nobody did.
        running: The driver in the main slot.
        ended: The newest driver of the main slot, if it runs no more.
        endings: How its drivers ended, oldest first.
        holds: What forbids its starts, where that was why the last one failed.
        newest_receipt: The newest receipt of any driver, also of another machine's.
        newest_status: What any driver said of itself last, also another machine's.
        trigger: The stream's trigger.
        progress_within: How long it may run without progress.
        now: When this was seen.
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
        """Whether it should run: declared a stream, and stopped by nobody, or started by someone.

        A suspension whose moment has passed stops nothing any more.
        """
        if self.desired is None:
            return self.mode == "stream" and not self.by_hand
        return self.mode == "stream" and self.desired.runs(self.now)

    @property
    def unfinished_run(self) -> Ending | None:
        """The newest run of a pipeline that runs by schedule, if it ended without doing all of its work."""
        if self.mode != "incremental" or self.running is not None or not self.endings:
            return None
        last = self.endings[-1]
        return None if last.is_finished else last

    @property
    def counted_endings(self) -> list[Ending]:
        """Ends count until the declaration changes or a person asks anew: both deserve a fresh try."""
        return [ending for ending in self.endings if self._counts(ending)]

    def _counts(self, ending: Ending) -> bool:
        asked_later = self.desired is not None and self.desired.at > ending.ended_at
        return ending.digest == self.digest and not asked_later
