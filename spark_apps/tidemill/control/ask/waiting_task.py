"""Records of the Airflow tasks that wait for bounded runs, so that runs of failed tasks are drained.

A trigger is notified when its task is marked as failed, but not if the triggerer is down or has not started
the trigger yet, or if the task was still on its worker. Reconciliation checks these records and therefore
misses no run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemill.control.ask.run_id import run_id_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver
from tidemill.errors import DataError

# Maximum time from the record to the driver's start. Above the execution timeout of the tasks, 15 minutes.
LONGEST_START = timedelta(minutes=20)


class WaitingTask(BaseModel):
    """A task and the run that it waits for."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    slot: Slot
    run_id: str
    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int = -1
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    def may_still_start(self, now: datetime) -> bool:
        """Return True if the task's worker, which wrote this record first, may still start the driver."""
        return now - self.at < LONGEST_START

    @property
    def name(self) -> str:
        """Return the name of the task in its DAG run, which a clear does not change."""
        return run_id_of(f"{self.dag_id}-{self.dag_run_id}-{self.task_id}-{self.map_index}")

    def is_about(self, driver: StartedDriver | None) -> bool:
        """Return True if the driver carries out this run."""
        return driver is not None and driver.run_id == self.run_id


def note_waiting(plane: ControlPlane, task: WaitingTask) -> None:
    """Write the record; call this before the start, so that every driver has a record."""
    path = plane.layout.waiting_task(task.pipeline, task.run_id)
    plane.store.write_json(path, task.model_dump(mode="json"))


def forget_waiting(plane: ControlPlane, pipeline: str, run_id: str) -> None:
    """Delete the record of a run that no task waits for."""
    plane.store.delete(plane.layout.waiting_task(pipeline, run_id))


def waiting_tasks(plane: ControlPlane) -> list[WaitingTask]:
    """Return all records, one for each bounded run; damaged ones are skipped."""
    folder = plane.layout.waiting_tasks
    found = (_read(plane, f"{folder}/{name}") for name in plane.store.list_names(folder))
    return [task for task in found if task is not None]


def _read(plane: ControlPlane, path: str) -> WaitingTask | None:
    try:
        document = plane.store.read_json(path)
        return None if document is None else WaitingTask.model_validate(document)
    except (DataError, ValidationError):
        return None
