"""By when an incremental pipeline should have read again, by Airflow's own timetable. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from airflow.sdk.timezone import convert_to_utc
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable

from tidemill.spec.pipeline import Run


def due_at(run: Run, read_at: datetime) -> datetime | None:
    """The end of the first run after a moment: by its deadline, else by the run after it.

    Args:
        run: How the pipeline runs.
        read_at: When it last read.

    Returns:
        None without a schedule: then nobody promises anything.
    """
    if run.schedule is None:
        return None
    begin = _next_run(run.schedule, read_at)
    if begin is None:
        return None
    return _next_run(run.schedule, begin) if run.deadline is None else begin + run.deadline


def _next_run(schedule: str, after: datetime) -> datetime | None:
    before = DataInterval.exact(convert_to_utc(after))
    always = TimeRestriction(earliest=None, latest=None, catchup=True)
    found = _timetable(schedule).next_dagrun_info(last_automated_data_interval=before, restriction=always)
    return None if found is None else found.run_after


@lru_cache(maxsize=1024)
def _timetable(schedule: str) -> CronTriggerTimetable:
    return CronTriggerTimetable(schedule, timezone="UTC")
