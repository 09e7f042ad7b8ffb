"""Notes of which Airflow task waits for a bounded run, so that a run whose task has failed is drained.

A trigger is told at once that its task was marked as failed, but not if the triggerer is down or has not seen
it yet, nor if the task was still on its worker. Reconciliation looks through these notes, and misses none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemill.control.ask.run_id import run_id_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver
from tidemill.errors import DataError

# Longest time from the note to the driver's start: above the execution timeout of the tasks, 15 minutes.
LONGEST_START = timedelta(minutes=20)


class WaitingTask(BaseModel):
    """One task and the run that it waits for."""

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
        """Whether the task's worker, which wrote this first, may not have come to the start yet."""
        return now - self.at < LONGEST_START

    @property
    def name(self) -> str:
        """The task of its DAG run, whichever run it waits for: the same after a clear."""
        return run_id_of(f"{self.dag_id}-{self.dag_run_id}-{self.task_id}-{self.map_index}")

    def is_about(self, driver: StartedDriver | None) -> bool:
        """Whether a driver carries out this run."""
        return driver is not None and driver.run_id == self.run_id


def note_waiting(plane: ControlPlane, task: WaitingTask) -> None:
    """To be written before the run is started: a driver that lives has its note."""
    path = plane.layout.waiting_task(task.pipeline, task.run_id)
    plane.store.write_json(path, task.model_dump(mode="json"))


def forget_waiting(plane: ControlPlane, pipeline: str, run_id: str) -> None:
    """Nobody waits for this run any more."""
    plane.store.delete(plane.layout.waiting_task(pipeline, run_id))


def waiting_tasks(plane: ControlPlane) -> list[WaitingTask]:
    """All notes; as many as bounded runs are at work. One that is damaged is passed over."""
    folder = plane.layout.waiting_tasks
    found = (_read(plane, f"{folder}/{name}") for name in plane.store.list_names(folder))
    return [task for task in found if task is not None]


def _read(plane: ControlPlane, path: str) -> WaitingTask | None:
    try:
        document = plane.store.read_json(path)
        return None if document is None else WaitingTask.model_validate(document)
    except (DataError, ValidationError):
        return None
