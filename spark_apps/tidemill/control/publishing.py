"""What a person decides of staged rows: they come into the tables, or they go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import Progress, forget_progress, read_progress
from tidemill.backfill.staging import (
    PublishRequest,
    ask_to_publish,
    attempt_of,
    drop_staged,
    waits,
)
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.procedure.request import check_person, check_reason
from tidemill.control.ask.bounded_run import plan_of
from tidemill.control.plane import ControlPlane
from tidemill.errors import UsageError


@dataclass(frozen=True)
class Asked:
    """What is known of a plan, and who decides.

    Args:
        plan: The plan.
        progress: How far it has come; None if nobody has begun.
        at_work: Whether a driver carries it out now.
        by: Who decides.
        why: What for.
    """

    plan: BackfillPlan
    progress: Progress | None
    at_work: bool
    by: str
    why: str = ""


def asked_of(plane: ControlPlane, plan: BackfillPlan, by: str, why: str = "") -> Asked:
    """Look at a plan.

    Raises:
        UsageError: TIDE-CKPT-031, if `by` or `why` cannot be kept.
    """
    driver = plane.running(plan.pipeline, "backfill")
    at_work = driver is not None and plan_of(driver.run_id) == plan.digest
    progress = read_progress(plane.store, plane.layout, plan.pipeline, plan.digest)
    return Asked(plan, progress, at_work, check_person(by), check_reason(why) if why else "")


def request_publishing(plane: ControlPlane, asked: Asked) -> bool:
    """Want the staged rows in the tables; False if they are there. The next run of the plan obeys.

    Raises:
        UsageError: TIDE-BACK-061, if there are none to publish.
    """
    plan, progress = asked.plan, asked.progress
    if progress is not None and progress.published is not None and progress.finished_at is not None:
        return False
    if progress is None or not (waits(plan, progress) or progress.published is not None):
        raise _not_staged(asked)
    plane.own()
    now, attempt = datetime.now(UTC), attempt_of(progress)
    ask_to_publish(plane.store, plane.layout, plan, PublishRequest(attempt=attempt, by=asked.by, at=now))
    _tell(plane, asked, "backfill publish", attempt)
    return True


def abort(plane: ControlPlane, asked: Asked) -> bool:
    """Delete staged rows; the tables stay as they are. False if there is nothing of them.

    1. Audit. 2. The request goes: a driver that starts from now on publishes nothing. One that has started
    before is seen. 3. What was done is forgotten: the same plan begins anew. 4. The rows. Killed between any
    two, it can be repeated.

    Raises:
        UsageError: TIDE-BACK-062, if a driver is at work, or rows are in a table already, or come there.
    """
    plan, progress, layout = asked.plan, asked.progress, plane.layout
    _check_abort(asked)
    if progress is None and not plane.store.list_names(layout.staged(plan.pipeline, plan.digest)):
        return False
    plane.own()
    # 1.
    _tell(plane, asked, "backfill abort", "" if progress is None else attempt_of(progress))
    # 2.
    plane.store.delete(layout.backfill_request(plan.pipeline, plan.digest))
    _check_abort(asked_of(plane, plan, asked.by, asked.why))
    # 3.
    forget_progress(plane.store, layout, plan.pipeline, plan.digest)
    # 4.
    drop_staged(plane.store, layout, plan)
    return True


def why_not_to_abort(asked: Asked) -> str:
    """Why staged rows may not be deleted; empty if they may."""
    if asked.plan.publish == "now":
        return "its rows went into the tables chunk by chunk: nothing is staged"
    if asked.at_work:
        return "a driver is at work on it"
    if asked.progress is not None and asked.progress.finished_at is not None:
        return "its rows are published"
    if _is_half_published(asked):
        return "publishing has begun: some tables may have its rows"
    return ""


def _is_half_published(asked: Asked) -> bool:
    progress = asked.progress
    return progress is not None and progress.since is not None and progress.finished_at is None


def _tell(plane: ControlPlane, asked: Asked, verb: str, attempt: str) -> None:
    now = datetime.now(UTC)
    plan = asked.plan
    entry = AuditEntry(
        verb=verb,
        pipeline=plan.pipeline,
        request_id=f"{verb.replace(' ', '-')}-{plan.digest}-{now:%Y%m%dt%H%M%S%f}",
        by=asked.by,
        why=asked.why,
        at=now,
        plan={"plan": plan.digest, "range": plan.bounds.text(), "attempt": attempt},
    )
    write_audit(plane.store, plane.layout, entry)


def _not_staged(asked: Asked) -> UsageError:
    plan, progress = asked.plan, asked.progress
    done = 0 if progress is None else len(progress.done)
    if plan.publish == "now":
        problem = "This plan stages nothing: its rows go into the tables at once."
        fix = "plan it with --publish later"
    else:
        problem = "Not all rows of this plan are staged."
        fix = f"tidemill backfill apply {plan.pipeline} --plan {plan.digest}, then verify, then publish"
    return UsageError(
        "TIDE-BACK-061",
        f"{problem} Nothing was published.",
        facts={"pipeline": plan.pipeline, "plan": plan.digest, "chunks_done": done},
        fix=fix,
        runbook="backfill",
    )


def _check_abort(asked: Asked) -> None:
    plan, reason = asked.plan, why_not_to_abort(asked)
    if not reason:
        return
    fix = "nothing; to put other rows in their place, run another backfill of the range"
    if asked.at_work:
        fix = f"stop the driver, and wait for its end: tidemill backfill stop {plan.pipeline}"
    elif _is_half_published(asked):
        publish = f"tidemill backfill publish {plan.pipeline} --plan {plan.digest}"
        fix = f"finish what has begun: {publish}"
    raise UsageError(
        "TIDE-BACK-062",
        "This backfill cannot be aborted. Nothing was deleted.",
        facts={"pipeline": plan.pipeline, "plan": plan.digest, "because": reason},
        fix=fix,
        runbook="backfill",
    )
