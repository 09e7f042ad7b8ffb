"""Bounded runs that an Airflow task has started and not reported yet.

A cleared task requests a new run, and a backfill that is planned again has another plan. This record contains
the earlier runs of the task. They may still run and are then joined, or have written rows that were not
reported yet. The record is deleted after the task has reported all runs. Runs after a later clear are new.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from tidemill.control.ask.waiting_task import WaitingTask
from tidemill.control.plane import ControlPlane
from tidemill.errors import DataError


class UntoldRuns(BaseModel):
    """The runs of one task.

    Args:
        since: Time of the first request; none of their commits is older.
        run_ids: All runs, the newest last; one may never have started.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    since: AwareDatetime
    run_ids: tuple[str, ...] = ()


def note_untold(plane: ControlPlane, task: WaitingTask) -> UntoldRuns:
    """Add the task's run before it is started, and return all runs."""
    known = untold_runs(plane, task, task.at)
    run_ids = dict.fromkeys((*known.run_ids, task.run_id))
    noted = known.model_copy(update={"run_ids": tuple(run_ids)})
    plane.store.write_json(plane.layout.untold_runs(task.name), noted.model_dump(mode="json"))
    return noted


def untold_runs(plane: ControlPlane, task: WaitingTask, begun_at: datetime) -> UntoldRuns:
    """Return all runs of a task; without a record, or if it is damaged, no runs since `begun_at`."""
    try:
        document = plane.store.read_json(plane.layout.untold_runs(task.name))
        return UntoldRuns(since=begun_at) if document is None else UntoldRuns.model_validate(document)
    except (DataError, ValidationError):
        return UntoldRuns(since=begun_at)


def forget_untold(plane: ControlPlane, task: WaitingTask) -> None:
    """Delete the record after the task has reported all runs."""
    plane.store.delete(plane.layout.untold_runs(task.name))
