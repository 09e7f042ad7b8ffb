"""The one trigger: waits in the triggerer, holding no worker, until a goal is proven."""

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

# Looks in a row that may fail before the trigger gives up: at 2 s a look, five minutes of a storage that
# does not answer. The driver itself goes on meanwhile.
TOLERATED_FAILURES = 150

# Seconds between two looks at the driver's log. On Kubernetes one costs a few calls of the API server.
LOG_SECONDS = 10

# Why a run is stopped then.
MARKED_AS_FAILED = "its task was marked as failed"


class GoalTrigger(BaseTrigger):
    """Fires when a goal is proven, has failed, or its time is over.

    Meanwhile the driver's log goes into the task's log. The event also carries `goal`, `deadline` and
    `shown`, for a task that has to wait on.

    Args:
        place: Project and environment, as plain data: only what the triggerer's own variables may not say.
        goal: A `tidemill.control.ask.goal.Goal`, as plain data.
        deadline: When to stop waiting (ISO 8601); None waits as long as the driver runs.
        shown: How much of the driver's log an earlier trigger has shown, as plain data.
        poll_seconds: Time between two looks.
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
        """What the triggerer needs to make this trigger again."""
        arguments = {
            "place": self.place,
            "goal": self.goal,
            "deadline": self.deadline,
            "shown": self._followed.position,
            "poll_seconds": self.poll_seconds,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to say. All I/O is in threads: one loop serves all triggers.

        The first look comes after a pause. A task that resumes before Airflow's scheduler has taken note of
        its deferral is failed by Airflow 3.3 (apache/airflow#72716).
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
                # The next look begins anew: the connection to the cluster may be another one by now.
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
        """What the driver has written since, line by line, in the task's log."""
        now = asyncio.get_running_loop().time()
        if self._plane is None or (now - self._log_read_at < LOG_SECONDS and not is_last):
            return
        self._log_read_at = now
        for line in await asyncio.to_thread(self._followed.read, self._plane):
            self.log.info("%s | %s", self.goal["pipeline"], line)

    async def on_kill(self) -> None:
        """Stop a bounded run whose task a person has marked as failed.

        Airflow also calls this when a task is cleared or marked as a success: the driver then goes on, and
        the cleared task finds it again.
        """
        if self.goal["kind"] == "finished" and await self._task_state() == TaskInstanceState.FAILED:
            self.log.info("%s: %s, so its driver is asked to stop", self.goal["pipeline"], MARKED_AS_FAILED)
            await asyncio.to_thread(self._stop)

    async def _task_state(self) -> str | None:
        task = self.task_instance
        if task is None:
            return None
        # Not asyncio's threads: the answer comes by the triggerer's own event loop.
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
