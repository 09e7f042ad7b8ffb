"""Files that were read, archived or deleted as the daily care does it, at a moment of the test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.journal import derived_request_id
from tidemill.checkpoint.verbs.clean import clean_steps, plan_clean
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

DAY = timedelta(days=1)


def clean(
    pipeline: Pipeline,
    after: timedelta = DAY,
    step_done: Callable[[str], None] = lambda _: None,
    why_left: Callable[[], str] = lambda: "",
) -> dict[str, Any]:
    """Plan and carry out a cleaning at a later time, or complete an unfinished one; return the plan."""
    store, layout, name = Store(pipeline.layout.root), pipeline.layout, pipeline.name
    request_id = derived_request_id(store, layout, name, "clean", {})
    request = Request("clean", name, request_id, "ann", "hygiene")
    moment = datetime.now(UTC) + after
    plan = plan_of(store, layout, request, lambda: plan_clean(store, pipeline, why_left(), moment))
    steps = clean_steps(store, pipeline, request, plan, why_left)
    procedure = procedure_of(request, plan, steps, forbids_starts=False)
    carry_out(store, layout, procedure, lambda: None, step_done)
    return plan
