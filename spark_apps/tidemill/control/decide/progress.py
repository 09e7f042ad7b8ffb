"""Progress of a stream that should run: it commits batches, or finds its source empty. Pure.

A running process, a restart and a green task prove nothing. Only the time since the last progress counts,
whichever driver made it. The status passes this time from one driver to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending, is_status_of
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.hung import NO_PROGRESS_PAGE, why_hung
from tidemill.control.decide.restart_policy import class_of
from tidemill.control.decide.suspension import words_of
from tidemill.control.decide.waves import Standing, failing_since
from tidemill.control.runtime import StartedDriver


@dataclass(frozen=True)
class Stall:
    """A stream that should make progress and does not.

    `overdue`: its suspension has ended, and it has made no progress since.

    Args:
        since: Time of the last progress, or time at which it should have started.
        reason: Known reason, in readable form.
        runbook: Runbook page.
    """

    since: datetime
    reason: str
    runbook: str
    kind: Literal["no progress", "overdue"] = "no progress"

    def words(self, now: datetime) -> str:
        """Return the stall as a sentence."""
        return f"{self.kind} for {_minutes(now - self.since)}: {self.reason}"


def stall_of(facts: Facts) -> Stall | None:
    """Return the stall of a stream that has made no progress for longer than allowed."""
    if not facts.is_wanted or facts.problem is not None or _is_going(facts.running):
        return None
    row = _fruitless(facts)
    since = _since(facts, row)
    if since is None or facts.now - since <= facts.progress_within:
        return _stall_of_wave(facts, row)
    reason, runbook = _why(facts, row)
    if since == _returned_at(facts):
        return Stall(since, f"{_suspension(facts)}; {reason}", runbook or NO_PROGRESS_PAGE, "overdue")
    return Stall(since, reason, runbook or NO_PROGRESS_PAGE)


def _stall_of_wave(facts: Facts, row: Sequence[Ending]) -> Stall | None:
    """Return the stall of a new version that blocks all other streams.

    Its time continues over restarts by an operator, clean ends and versions that wait behind it.
    """
    newest = facts.running or facts.ended
    if facts.on_change == "leave" or newest is None or newest.mode != "stream" or facts.rollback is not None:
        return None
    standing = Standing(
        facts.running, facts.endings, facts.digest, facts.newest_status, facts.progress_within
    )
    since = failing_since(standing, facts.now)
    if since is None:
        return None
    reason, runbook = _why(facts, row)
    words = f"its new version makes no progress, which stops the wave: {reason}"
    return Stall(since, words, runbook or NO_PROGRESS_PAGE)


def _returned_at(facts: Facts) -> datetime | None:
    """Return the end of a suspension after which the stream has made no progress yet."""
    returned_at = None if facts.desired is None else facts.desired.returned_at(facts.now)
    progressed_at = None if facts.newest_status is None else facts.newest_status.progressed_at
    is_back = returned_at is not None and progressed_at is not None and progressed_at >= returned_at
    return None if is_back else returned_at


def _suspension(facts: Facts) -> str:
    assert facts.desired is not None  # noqa: S101  # the stream was suspended
    return f"{words_of(facts.desired)}, and not back"


def _is_going(driver: StartedDriver | None) -> bool:
    return driver is not None and (driver.drain_requested_at is not None or driver.mode != "stream")


def _since(facts: Facts, row: Sequence[Ending]) -> datetime | None:
    """Return the latest of: the last progress, the first start after it, the request.

    None if no driver runs and the last one ended well, because the next one is about to start.
    """
    starts = [ending.started_at for ending in row]
    if facts.running is not None:
        starts.append(facts.running.claimed_at)
    returned_at = _returned_at(facts)
    if returned_at is not None:
        starts.append(returned_at)
    if not starts:
        return None
    status, wish = facts.newest_status, facts.desired
    others = [
        None if status is None else status.progressed_at,
        None if wish is None else wish.returned_at(facts.now) or wish.at,
    ]
    return max([min(starts), *(moment for moment in others if moment is not None)])


def _fruitless(facts: Facts) -> list[Ending]:
    """Return the last consecutive drivers that ended without progress, oldest first."""
    newest_first = reversed(facts.counted_endings)
    return [*takewhile(lambda ending: not ending.progressed and class_of(ending) != "clean", newest_first)][
        ::-1
    ]


def _why(facts: Facts, row: Sequence[Ending]) -> tuple[str, str]:
    driver, last = facts.running, row[-1] if row else None
    before = "" if last is None else f"; {len(row)} drivers before it made none, the last: {last.cause}"
    if driver is None and last is None:
        return "nothing has started it", ""
    if driver is None:
        assert last is not None  # noqa: S101  # see above
        return f"{len(row)} drivers in a row made none, the last: {last.cause}", last.runbook
    if driver.stuck:
        return driver.stuck, "kubernetes-object-refused"
    status = facts.newest_status
    if status is None or not is_status_of(status, driver):
        said = f"driver {driver.run_id} ({driver.process}) has said nothing yet"
        return said + before, "" if last is None else last.runbook
    if status.error is not None:
        error = status.error
        return f"{error.get('id')} {error.get('problem')}{before}", str(error.get("runbook") or "")
    hung = why_hung(driver, facts.trigger)
    return f"{hung or _doing(status, driver, facts.now)}{before}", ""


def _doing(status: Status, driver: StartedDriver, now: datetime) -> str:
    heard = _minutes(status.age(now))
    words = [f"its driver ({driver.process}) is {status.state}, and was last heard of {heard} ago"]
    if status.batch_id is None or status.batch_committed_at is None:
        words.append("it has not committed a batch")
    else:
        words.append(f"batch {status.batch_id} was committed {_minutes(now - status.batch_committed_at)} ago")
    if status.lag is not None:
        words.append(f"{status.lag:,} records wait at its source")
    return "; ".join([*words, *status.notes])


def _minutes(span: timedelta) -> str:
    return f"{span / timedelta(minutes=1):.0f} minutes"
