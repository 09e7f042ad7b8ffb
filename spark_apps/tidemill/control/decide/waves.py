"""Rolling upgrades: streams on their way to a new version, and whether more may follow. From records alone.

The digests of started drivers, their endings and the newest status are stored anyway. No separate roll-out
list exists that could contradict them. A stream is on its way from the drain of its old driver until a driver
of the new version has committed a batch or found its source empty. A stream that takes longer than allowed
stops the wave, because a version that fails for one stream is not tried on the next.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending, found_nothing_to_read, is_status_of
from tidemill.control.runtime import StartedDriver

Stage = Literal["settled", "on its way", "failed"]


@dataclass(frozen=True)
class Standing:
    """The versions of one stream.

    Args:
        running: Its driver; None if none runs.
        endings: Ends of the previous drivers, oldest first.
        wanted: Digest of the desired version; used only while no driver runs.
        status: Status of its newest driver.
        patience: Maximum time without progress.
    """

    running: StartedDriver | None
    endings: tuple[Ending, ...]
    wanted: str | None = None
    status: Status | None = None
    patience: timedelta = timedelta(minutes=10)


def stage_of(stream: Standing, now: datetime) -> Stage:
    """Return the stage of a stream's newest version."""
    driver = stream.running
    version = stream.wanted if driver is None else driver.digest
    mine, before = _since_the_change(stream.endings, version)
    if driver is not None and driver.drain_requested_at is not None:
        # The reason for the drain is unknown here. The stream either starts again soon or was stopped for
        # good.
        return "on its way"
    if before is None or version is None or any(ending.progressed for ending in mine):
        return "settled"
    if driver is not None and _has_progressed(stream.status, driver):
        return "settled"
    first = _first_start(mine, driver)
    if first is None:
        # If it was not started by now, another reason, such as a hold, keeps it down.
        return "settled" if now - before.ended_at > stream.patience else "on its way"
    return "failed" if now - first > stream.patience else "on its way"


def failing_since(stream: Standing, now: datetime) -> datetime | None:
    """Return the first start of a version that stops the wave; None if it does not stop it."""
    if stage_of(stream, now) != "failed":
        return None
    driver = stream.running
    mine, _ = _since_the_change(stream.endings, stream.wanted if driver is None else driver.digest)
    return _first_start(mine, driver)


def is_in_question(running: StartedDriver | None, endings: Iterable[Ending]) -> bool:
    """Return True if more records must be read to determine the stream's stage."""
    if running is None or running.drain_requested_at is not None:
        return True
    mine, before = _since_the_change(tuple(endings), running.digest)
    return before is not None and not any(ending.progressed for ending in mine)


def _since_the_change(endings: tuple[Ending, ...], version: str | None) -> tuple[list[Ending], Ending | None]:
    """Return the version's endings, newest first, and the last ending of the previous version."""
    mine: list[Ending] = []
    for ending in reversed(endings):
        if ending.digest != version:
            return mine, ending
        mine.append(ending)
    return mine, None


def _first_start(mine: Iterable[Ending], driver: StartedDriver | None) -> datetime | None:
    starts = [ending.started_at for ending in mine] + ([] if driver is None else [driver.claimed_at])
    return min(starts, default=None)


def _has_progressed(status: Status | None, driver: StartedDriver) -> bool:
    if status is None or not is_status_of(status, driver):
        return False
    return status.batch_committed_at is not None or found_nothing_to_read(status)


@dataclass
class Wave:
    """Number of streams that may still be replaced in one reconciliation; visits ask from several threads.

    Args:
        room: Number of streams that may follow.
        why_not: Reason why no other may follow.
        under_way: Streams that already have a place, including those whose new version failed, because
            another version or the previous one may fix them.
    """

    room: int
    why_not: str
    under_way: Collection[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def takes(self, name: str) -> bool:
        """Return True if this stream may be replaced now; it then takes a place, unless it has one."""
        if name in self.under_way:
            return True
        with self._lock:
            self.room -= 1
            return self.room >= 0


def wave_of(stages: Mapping[str, Stage], size: int) -> Wave:
    """Return the rest of a wave of this size."""
    under_way = frozenset(name for name, stage in stages.items() if stage != "settled")
    failed = sorted(name for name, stage in stages.items() if stage == "failed")
    if failed:
        why_not = f"the new version of {', '.join(failed[:3])} makes no progress, which stops the wave"
        return Wave(0, why_not, under_way)
    going = sorted(name for name, stage in stages.items() if stage == "on its way")
    others = f", and {', '.join(going[:3])} {'is' if len(going) == 1 else 'are'} on the way" if going else ""
    return Wave(max(0, size - len(going)), f"{size} may be replaced at once{others}", under_way)
