"""What someone waits for after a request; plain data, so that it can wait in Airflow's database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tidemill.control.ask.proof import Proof, prove_finished, prove_part_ended, prove_progress, prove_stopped
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver

# Longest wait for a driver's end after its grace period: it is killed then, and gone when its node says so.
KILL_TIME = timedelta(minutes=3)

# Longest wait for the first batch. It takes up to 25 s on a busy machine, with a large backlog minutes.
FIRST_BATCH_TIME = timedelta(minutes=10)

# Longest wait for Spark's plan of a version: a pod's start, half a minute of Spark, perhaps a part before it.
PLAN_TIME = timedelta(minutes=15)


class Goal(BaseModel):
    """One goal.

    `progress`: the stream commits, by a driver not older than `started_after`. `planned`: Spark has planned
    the version that is to take over. `stopped`: no driver runs. If either is not `final`, the request has
    another step. `finished`: the bounded run that was started at `started_at` in `slot` has left its receipt.

    Args:
        pipeline: Whose.
        kind: What is waited for.
        final: Whether the request ends with it.
        started_after: See `progress`.
        slot: See `finished`; of `planned`, that of parts.
        started_at: See `finished`.
        until: When the suspension ends that this is about: a driver that runs then is no longer to stop.
        killed_drain: When the drain was asked whose driver was killed for this goal: it is waited for, and
            not killed again.
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
        """How long to wait before giving up; None for a bounded run, which takes as long as it takes."""
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
    """The driver that a goal is about; None if it was not started yet, or if another one took its slot."""
    driver = plane.runtime.last_start(goal.pipeline, goal.slot)
    if driver is None or (goal.kind == "finished" and driver.started_at != goal.started_at):
        return None
    is_older = goal.started_after is not None and driver.claimed_at < goal.started_after
    return None if goal.kind == "progress" and is_older else driver


def prove(plane: ControlPlane, goal: Goal) -> Proof:
    """How far the goal has come."""
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
