"""Goals that a request waits for, as plain data that can be stored in Airflow's database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tidemill.control.ask.proof import Proof, prove_finished, prove_part_ended, prove_progress, prove_stopped
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver

# Maximum wait for a driver's end after its grace period. It is killed then, and has ended when its node
# reports it.
KILL_TIME = timedelta(minutes=3)

# Maximum wait for the first batch. It takes up to 25 seconds on a busy machine, and minutes with a large
# backlog.
FIRST_BATCH_TIME = timedelta(minutes=10)

# Maximum wait for Spark's plan of a version: start of a pod, half a minute of Spark, perhaps another Spark
# job first.
PLAN_TIME = timedelta(minutes=15)


class Goal(BaseModel):
    """One goal.

    - `progress`: the stream commits a batch, by a driver not older than `started_after`.
    - `planned`: Spark has planned the version that will take over.
    - `stopped`: no driver runs.
    - `finished`: the bounded run that started at `started_at` in `slot` has left its receipt.

    After a `planned` or `stopped` goal that is not `final`, the request has another step.

    Args:
        pipeline: The pipeline.
        kind: Kind of goal.
        final: True if the request ends with this goal.
        started_after: See `progress`.
        slot: See `finished`; for `planned`, the slot of Spark jobs.
        started_at: See `finished`.
        until: End of the suspension; a driver that runs after it need not stop.
        killed_drain: Time of the drain request of a driver that was killed for this goal. The goal waits for
            its end and does not kill it again.
    """

    model_config = ConfigDict(frozen=True)

    pipeline: str
    kind: Literal["progress", "planned", "stopped", "finished"]
    final: bool = True
    started_after: datetime | None = None
    slot: Slot = "main"
    started_at: datetime | None = None
    until: datetime | None = None
    killed_drain: datetime | None = None

    def patience(self, plane: ControlPlane) -> timedelta | None:
        """Return the maximum wait; None for a bounded run, which may take any time."""
        match self.kind:
            case "progress":
                return FIRST_BATCH_TIME
            case "planned":
                return PLAN_TIME
            case "stopped":
                return plane.environment.spec.grace_period + KILL_TIME
            case "finished":
                return None


def driver_of(plane: ControlPlane, goal: Goal) -> StartedDriver | None:
    """Return the driver of a goal; None if it was not started yet, or if another one took its slot."""
    driver = plane.runtime.last_start(goal.pipeline, goal.slot)
    if driver is None or (goal.kind == "finished" and driver.started_at != goal.started_at):
        return None
    is_older = goal.started_after is not None and driver.claimed_at < goal.started_after
    return None if goal.kind == "progress" and is_older else driver


def prove(plane: ControlPlane, goal: Goal) -> Proof:
    """Return the progress towards the goal."""
    match goal.kind:
        case "progress":
            return prove_progress(plane, goal.pipeline, goal.started_after)
        case "planned":
            return prove_part_ended(plane, goal.pipeline)
        case "stopped":
            now = datetime.now(UTC)
            final = goal.final and (goal.until is None or now < goal.until)
            return prove_stopped(plane, goal.pipeline, now, final=final, killed_drain=goal.killed_drain)
        case "finished":
            return prove_finished(plane, goal.pipeline, goal.slot, goal.started_at)
