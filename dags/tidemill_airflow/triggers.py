"""The trigger: waits in the triggerer, without a worker, until a goal is proven."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from airflow.utils.state import TaskInstanceState
from asgiref.sync import sync_to_async

from tidemill_airflow.followed_log import FollowedLog
from tidemill_airflow.place import place_from
from tidemill_airflow.task_state import state_of_task

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane

# Maximum consecutive failed checks before the trigger gives up: at 2 seconds each, five minutes of
# unavailable storage. The driver itself continues.
TOLERATED_FAILURES = 150

# Seconds between two reads of the driver's log. On Kubernetes, a read costs a few calls of the API server.
LOG_SECONDS = 10

# Reason given when such a run is stopped.
MARKED_AS_FAILED = "its task was marked as failed"


class GoalTrigger(BaseTrigger):
    """Fires when a goal is proven, has failed, or has reached its deadline.

    While it waits, it copies the driver's log into the task's log. The event also carries `goal`, `deadline`
    and `shown`, for a task that has to wait again.

    Args:
        place: Project and environment as plain data; only values that the triggerer's variables may not
            contain.
        goal: A `tidemill.control.ask.goal.Goal`, as plain data.
        deadline: Time to stop waiting (ISO 8601); None waits as long as the driver runs.
        shown: Position in the driver's log that an earlier trigger has reached, as plain data.
        poll_seconds: Seconds between two checks.
    """

    def __init__(
        self,
        place: dict[str, str],
        goal: dict[str, Any],
        deadline: str | None,
        shown: dict[str, Any] | None = None,
        poll_seconds: float = 2.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has no types here
        self.place = place
        self.goal = goal
        self.deadline = deadline
        self.poll_seconds = poll_seconds
        self._plane: ControlPlane | None = None
        self._followed = FollowedLog(goal, shown)
        self._log_read_at = -math.inf

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the data from which the triggerer recreates this trigger."""
        arguments = {
            "place": self.place,
            "goal": self.goal,
            "deadline": self.deadline,
            "shown": self._followed.position,
            "poll_seconds": self.poll_seconds,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until the goal is decided. All I/O runs in threads, because one loop serves all triggers.

        The first check follows a pause. Airflow 3.3 fails a task that resumes before the scheduler has
        recorded its deferral (apache/airflow#72716).
        """
        failures, told = 0, ""
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                event = await asyncio.to_thread(self._look)
                failures = 0
            except Exception as error:
                failures += 1
                if failures > TOLERATED_FAILURES:
                    raise
                event = {"state": "pending", "message": f"cannot look now: {error}", "evidence": {}}
                # The next check opens a new connection, because the address of the cluster may have changed.
                self._plane = None
            is_decided = event["state"] != "pending" or self._is_over()
            await self._show_log(is_last=is_decided)
            if is_decided:
                told_with = {
                    **event,
                    "goal": self.goal,
                    "deadline": self.deadline,
                    "shown": self._followed.position,
                }
                yield TriggerEvent(told_with)  # type: ignore[no-untyped-call]
                return
            if event["message"] != told:
                told = event["message"]
                self.log.info("%s: %s", self.goal["pipeline"], told)

    async def _show_log(self, *, is_last: bool) -> None:
        """Copy the new lines of the driver's log into the task's log."""
        now = asyncio.get_running_loop().time()
        if self._plane is None or (now - self._log_read_at < LOG_SECONDS and not is_last):
            return
        self._log_read_at = now
        for line in await asyncio.to_thread(self._followed.read, self._plane):
            self.log.info("%s | %s", self.goal["pipeline"], line)

    async def on_kill(self) -> None:
        """Stop a bounded run whose task a user has marked as failed.

        Airflow also calls this when a task is cleared or marked as a success. Then the driver continues, and
        a cleared task finds it again.
        """
        if self.goal["kind"] == "finished" and await self._task_state() == TaskInstanceState.FAILED:
            self.log.info("%s: %s, so its driver is asked to stop", self.goal["pipeline"], MARKED_AS_FAILED)
            await asyncio.to_thread(self._stop)

    async def _task_state(self) -> str | None:
        task = self.task_instance
        if task is None:
            return None
        # Do not use asyncio's threads, because the answer arrives in the triggerer's event loop.
        return await sync_to_async(state_of_task)(task.dag_id, task.run_id, task.task_id, task.map_index)

    def _stop(self) -> None:
        from tidemill.control.ask.bounded_run import stop_run
        from tidemill.control.ask.goal import Goal

        stop_run(place_from(self.place).open(), Goal.model_validate(self.goal), "airflow", MARKED_AS_FAILED)

    def _look(self) -> dict[str, Any]:
        from tidemill.control.ask.goal import Goal, prove

        if self._plane is None:
            self._plane = place_from(self.place).open()
        proof = prove(self._plane, Goal.model_validate(self.goal))
        return {"state": proof.state, "message": proof.message, "evidence": dict(proof.evidence)}

    def _is_over(self) -> bool:
        return self.deadline is not None and datetime.now(UTC) >= datetime.fromisoformat(self.deadline)
