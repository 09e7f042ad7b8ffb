"""Which bounded runs an Airflow task has started and not told of yet.

A task that is cleared asks for a new run, and a backfill that is planned again has another plan. What the
task has started before is known from here: it may be at work and is joined, or has written rows that nobody
has told of. The record goes once the task has told of all: what it finds after another clear is new.
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
        since: When the first of them was asked for: none of their commits is older.
        run_ids: All of them, the newest last; one may never have started.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    since: AwareDatetime
    run_ids: tuple[str, ...] = ()


def note_untold(plane: ControlPlane, task: WaitingTask) -> UntoldRuns:
    """Add the task's run, before it is started; returns all."""
    known = untold_runs(plane, task, task.at)
    run_ids = dict.fromkeys((*known.run_ids, task.run_id))
    noted = known.model_copy(update={"run_ids": tuple(run_ids)})
    plane.store.write_json(plane.layout.untold_runs(task.name), noted.model_dump(mode="json"))
    return noted


def untold_runs(plane: ControlPlane, task: WaitingTask, begun_at: datetime) -> UntoldRuns:
    """All of a task; none, since a given moment, if there is no record or it is damaged."""
    try:
        document = plane.store.read_json(plane.layout.untold_runs(task.name))
        return UntoldRuns(since=begun_at) if document is None else UntoldRuns.model_validate(document)
    except (DataError, ValidationError):
        return UntoldRuns(since=begun_at)


def forget_untold(plane: ControlPlane, task: WaitingTask) -> None:
    """The task has told of all of them."""
    plane.store.delete(plane.layout.untold_runs(task.name))
