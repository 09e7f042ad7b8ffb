"""Last read of an incremental pipeline, and the time of its next read by Airflow's timetable. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from airflow.sdk.timezone import convert_to_utc
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable

from tidemill.control.decide.facts import Facts
from tidemill.spec.readable import short_duration
from tidemill.spec.run import Run


def read_at(facts: Facts) -> datetime | None:
    """Return the time at which a pipeline last read, or found nothing to read."""
    status, receipt = facts.newest_status, facts.newest_receipt
    moments = [] if status is None else [status.progressed_at, status.batch_committed_at]
    if receipt is not None and receipt.mode == "incremental" and receipt.result == "clean":
        # A run that finds nothing new leaves only a receipt.
        moments.append(None if receipt.stopped_early else receipt.stopped_at)
    # The newest receipt may be from a backfill.
    if facts.ended is not None and facts.ended.mode == "incremental" and facts.endings[-1:]:
        moments.append(facts.endings[-1].ended_at if facts.endings[-1].is_finished else None)
    return max((moment for moment in moments if moment is not None), default=None)


def why_overdue(facts: Facts, run: Run) -> str:
    """Return a message if a scheduled pipeline is overdue; empty if it is not, or if it is not scheduled."""
    is_scheduled = facts.mode == "incremental" and not facts.by_hand and facts.desired is None
    last = read_at(facts) if is_scheduled else None
    due = None if last is None else due_at(run, last)
    if last is None or due is None or facts.now <= due:
        return ""
    age = short_duration(facts.now - last)
    return f"its run is overdue: it last read {age} ago, and should have again by {due:%Y-%m-%d %H:%M} UTC"


def due_at(run: Run, read_at: datetime) -> datetime | None:
    """Return the end of the first run after a time: its deadline, or else the start of the run after it.

    Args:
        run: The pipeline's run declaration.
        read_at: Time of its last read.

    Returns:
        None without a schedule, because then no read is due.
    """
    if run.schedule is None:
        return None
    begin = _next_run(run.schedule, read_at)
    if begin is None:
        return None
    return _next_run(run.schedule, begin) if run.deadline is None else begin + run.deadline


@lru_cache(maxsize=4096)
def _next_run(schedule: str, after: datetime) -> datetime | None:
    before = DataInterval.exact(convert_to_utc(after))
    always = TimeRestriction(earliest=None, latest=None, catchup=True)
    found = _timetable(schedule).next_dagrun_info(last_automated_data_interval=before, restriction=always)
    return None if found is None else found.run_after


@lru_cache(maxsize=1024)
def _timetable(schedule: str) -> CronTriggerTimetable:
    return CronTriggerTimetable(schedule, timezone="UTC")
