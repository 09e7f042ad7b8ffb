"""An operation as a runbook DAG runs it: first a plan, later exactly this plan or none.

shown = show_plan(plane, asked, asking)          # plain data, for the log and the approver
done = carry_out_plan(plane, asked, asking, shown)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tidemill.checkpoint.procedure.request import check_reason
from tidemill.control.procedures import by_hand, run
from tidemill.control.procedures.parts import PROCEDURES
from tidemill.errors import GateRefusedError
from tidemill.spec.project import resolve_pipeline
from tidemill.storage.advance import nobody_told

if TYPE_CHECKING:
    from tidemill.checkpoint.holds import Hold
    from tidemill.control.plane import ControlPlane
    from tidemill.control.procedures.filled_form import Asked
    from tidemill.control.procedures.run import Asking
    from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Runbook:
    """One operation for one form.

    Args:
        plan: Returns the current plan as plain data. Writes nothing.
        lines: Returns a plan in readable form.
        has_work: Returns True if the plan changes anything.
        check: Raises if requirements of the plan or a consent are missing.
        settled: Returns the part of a plan that must not change until it is carried out.
        act: Carries out a plan and returns the result; reports each step and the progress of copies.
    """

    plan: Callable[[], Mapping[str, Any]]
    lines: Callable[[Mapping[str, Any]], list[str]]
    settled: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    act: Callable[[Mapping[str, Any], run.Hearers], Mapping[str, Any]]
    has_work: Callable[[Mapping[str, Any]], bool] = lambda _: True
    check: Callable[[Mapping[str, Any]], None] = lambda _: None


def show_plan(plane: ControlPlane, asked: Asked, asking: Asking) -> dict[str, Any]:
    """Return the plan, as text and as data. Writes nothing.

    Raises:
        TidemillError: Reason why the operation refuses.
    """
    if not asked.dry_run:
        check_reason(asked.reason)
    runbook = _runbook(plane, asked, asking)
    plan = _plain(runbook.plan())
    has_work = runbook.has_work(plan)
    if has_work and not asked.dry_run:
        runbook.check(plan)
    return {
        "verb": asked.verb,
        "pipeline": asked.pipeline,
        "text": "\n".join(runbook.lines(plan)),
        "plan": plan,
        "has_work": has_work,
    }


def carry_out_plan(
    plane: ControlPlane,
    asked: Asked,
    asking: Asking,
    shown: Mapping[str, Any],
    hearers: run.Hearers = run.NOBODY,
) -> dict[str, Any]:
    """Carry out the plan that was shown. A finished request is not repeated.

    Raises:
        GateRefusedError: TIDE-CKPT-100, if the plan has changed since.
        TidemillError: Reason why the operation refuses.
    """
    runbook = _runbook(plane, asked, asking)
    approved, now = shown["plan"], _plain(runbook.plan())
    before, after = _plain(runbook.settled(approved)), _plain(runbook.settled(now))
    if before != after:
        changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        raise GateRefusedError(
            "TIDE-CKPT-100",
            "The plan has changed since it was shown. Nothing was changed.",
            facts={"verb": asked.verb, "pipeline": asked.pipeline, "changed": ", ".join(changed)},
            fix="run it again, and read the new plan",
        )
    return {"verb": asked.verb, "pipeline": asked.pipeline, **_plain(runbook.act(approved, hearers))}


def _runbook(plane: ControlPlane, asked: Asked, asking: Asking) -> Runbook:
    pipeline = resolve_pipeline(plane.environment, asked.pipeline)
    if asked.verb in PROCEDURES:
        return _procedure(plane, asked, asking, pipeline)
    return {"backup": _backup, "hold": _hold, "release": _release}[asked.verb](plane, asked, asking, pipeline)


def _procedure(plane: ControlPlane, asked: Asked, asking: Asking, pipeline: Pipeline) -> Runbook:
    parts = PROCEDURES[asked.verb](pipeline, **asked.arguments)

    @cache  # an unresponsive broker is waited for only once
    def planned() -> run.Planned:
        return run.plan_verb(asking, parts, pipeline.name)

    def act(plan: Mapping[str, Any], hearers: run.Hearers) -> Mapping[str, Any]:
        acting = replace(planned(), plan=plan)
        run.act(plane, asking, acting, hearers)
        following = run.next_words(plane, parts.pipeline, parts.then)
        return {"request_id": acting.request.request_id, "next": asking.command(*following)}

    def check(plan: Mapping[str, Any]) -> None:
        replace(planned(), plan=plan).check_consent()
        # Creating steps that need Spark checks that Spark is available.
        parts.steps(planned().request, plan, nobody_told)

    return Runbook(
        plan=lambda: planned().plan,
        lines=parts.lines,
        settled=lambda plan: {key: value for key, value in plan.items() if key not in parts.unsettled},
        act=act,
        has_work=parts.has_work,
        check=check,
    )


def _backup(plane: ControlPlane, asked: Asked, asking: Asking, pipeline: Pipeline) -> Runbook:  # noqa: ARG001
    from tidemill.checkpoint.verbs.backup import plan_backup

    def act(_: Mapping[str, Any], hearers: run.Hearers) -> Mapping[str, Any]:
        taken = by_hand.back_up(plane, asking, pipeline, hearers.told)
        back = asking.command("checkpoint", "restore", pipeline.name, taken.backup)
        return {**taken.model_dump(mode="json", exclude={"files"}), "bytes": taken.size, "next": back}

    return Runbook(
        plan=lambda: plan_backup(plane.store, pipeline),
        lines=lambda plan: [
            f"would copy {plan['files']} files, {plan['bytes']} bytes: batch {plan['batch_id']}, "
            "or a newer one by then"
        ],
        # A live stream continues to commit batches.
        settled=lambda plan: {"generation": plan["generation"]},
        act=act,
    )


def _hold(plane: ControlPlane, asked: Asked, asking: Asking, pipeline: Pipeline) -> Runbook:
    from tidemill.checkpoint.holds import is_held

    hold_id = asked.arguments["hold_id"]

    def act(_: Mapping[str, Any], __: run.Hearers) -> Mapping[str, Any]:
        held, taken = by_hand.hold(plane, asking, pipeline, hold_id)
        return {"hold": hold_id, "taken": taken, "next": held.to_do}

    return Runbook(
        plan=lambda: {
            "hold": hold_id,
            "stands": is_held(plane.store, pipeline.layout, pipeline.name, hold_id),
        },
        lines=lambda plan: [
            f"{pipeline.name} is held by {hold_id} already"
            if plan["stands"]
            else f"would forbid starts of {pipeline.name}: {hold_id}; a running driver goes on"
        ],
        settled=lambda plan: {"hold": plan["hold"]},
        act=act,
    )


def _release(plane: ControlPlane, asked: Asked, asking: Asking, pipeline: Pipeline) -> Runbook:
    from tidemill.checkpoint.verbs.release import check_releasable, released_before

    hold_id, force = asked.arguments["hold_id"], asked.arguments.get("force", False)

    def before() -> Hold | None:
        """Return the hold that an earlier try released; the reason contains the DAG run."""
        return released_before(plane.store, pipeline.layout, pipeline.name, hold_id, asking.reason)

    def plan() -> Mapping[str, Any]:
        found = before() or check_releasable(
            plane.store, pipeline.layout, pipeline.name, hold_id, force=force
        )
        return found.model_dump(mode="json", exclude={"alive"})

    def act(_: Mapping[str, Any], __: run.Hearers) -> Mapping[str, Any]:
        released = before() or by_hand.release(plane, asking, pipeline, hold_id, force=force)
        following = run.next_words(plane, pipeline)
        return {"released": released.model_dump(mode="json"), "next": asking.command(*following)}

    return Runbook(
        plan=plan,
        lines=lambda found: [
            f"would release {hold_id}, held by {found['by']} since {found['at']}: {found['why']}"
        ],
        settled=lambda found: found,
        act=act,
    )


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as it is read back from Airflow's database and from the journal."""
    stored: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return stored
