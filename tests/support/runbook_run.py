"""One run of a runbook DAG, task by task, without an Airflow: operators, their triggers and their XComs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from tests.support.small_project import SmallProject

# Default time of the request of every run.
WHEN = datetime(2026, 11, 20, 14, tzinfo=UTC)


@dataclass
class RunbookRun:
    """One DAG run of an operation, task by task, as the test asks for them.

    Args:
        project: The project.
        verb: The operation.
        params: The form; missing fields have their defaults.
        xcom: Return values of the tasks.
    """

    project: SmallProject
    verb: str
    params: dict[str, Any]
    at: datetime = WHEN
    xcom: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> Any:
        from tidemill.control.procedures.filled_form import fields_of

        defaults = {one.name: one.default for one in fields_of(self.verb) if one.default is not ...}
        run = SimpleNamespace(
            dag_id=f"checkpoint__{self.verb}",
            run_id="manual-1",
            run_after=self.at,
            triggering_user_name="ann",
            conf=self.params,
        )
        ti = SimpleNamespace(xcom_pull=self._pull)
        return {"dag_run": run, "ti": ti, "params": {**defaults, "pipeline": "orders", **self.params}}

    def _pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.xcom.get(task_ids if key == "return_value" else f"{task_ids}.{key}")

    def approved_by(self, name: str) -> None:
        self.xcom["approve.plan"] = self.xcom["plan"]["text"]
        self.xcom["approve"] = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": name}}

    def stop(self) -> Any:
        from tidemill_airflow.runbook_operators import StopForVerb

        return self._end_of("stop", StopForVerb(task_id="stop", place=self._place, verb=self.verb))

    def plan(self) -> Any:
        from tidemill_airflow.runbook_operators import PlanVerb

        return self._end_of("plan", PlanVerb(task_id="plan", place=self._place, verb=self.verb))

    def apply(self) -> Any:
        from tidemill_airflow.runbook_operators import ApplyVerb

        return self._end_of("apply", ApplyVerb(task_id="apply", place=self._place, verb=self.verb))

    def start(self) -> Any:
        from tidemill_airflow.runbook_operators import StartAfterVerb

        return self._end_of("start", StartAfterVerb(task_id="start", place=self._place))

    @property
    def _place(self) -> Any:
        document = {"project": str(self.project.folder), "environment": "local"}
        return SimpleNamespace(
            environment="local", open=self.project.plane, as_document=lambda: document, project=""
        )

    def _end_of(self, task_id: str, task: Any) -> Any:
        """Return the result of a task after all its deferrals."""
        from airflow.sdk.exceptions import TaskDeferred

        method, event = "execute", None
        while True:
            try:
                arguments = () if event is None else (event,)
                self.xcom[task_id] = getattr(task, method)(self.context, *arguments)
                return self.xcom[task_id]
            except TaskDeferred as deferred:
                method, event = deferred.method_name, self._event(deferred.trigger)

    def _event(self, trigger: Any) -> dict[str, Any]:
        trigger.poll_seconds = 0.05
        trigger._plane = self.project.plane()

        async def first() -> Any:
            return await anext(trigger.run())

        payload: dict[str, Any] = asyncio.run(first()).payload
        return payload
