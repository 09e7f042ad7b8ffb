"""Decisions about staged rows: publish them to the tables, or delete them."""

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
    """State of a plan, and the user who decides.

    Args:
        plan: The plan.
        progress: Its progress; None if it was not started.
        at_work: True if a driver carries it out now.
        by: The user who decides.
        why: The reason.
    """

    plan: BackfillPlan
    progress: Progress | None
    at_work: bool
    by: str
    why: str = ""


def asked_of(plane: ControlPlane, plan: BackfillPlan, by: str, why: str = "") -> Asked:
    """Return the state of a plan.

    Raises:
        UsageError: TIDE-CKPT-031, if `by` or `why` cannot be stored.
    """
    driver = plane.running(plan.pipeline, "backfill")
    at_work = driver is not None and plan_of(driver.run_id) == plan.digest
    progress = read_progress(plane.store, plane.layout, plan.pipeline, plan.digest)
    return Asked(plan, progress, at_work, check_person(by), check_reason(why) if why else "")


def request_publishing(plane: ControlPlane, asked: Asked) -> bool:
    """Request to publish the staged rows, which the plan's next run does; False if they are published.

    Raises:
        UsageError: TIDE-BACK-061, if there are no rows to publish.
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
    """Delete staged rows without changing the tables; False if there are none.

    1. Write the audit entry. 2. Delete the publish request, so that a driver that starts now publishes
    nothing. Check for a driver that has started before. 3. Delete the progress, so that the plan can be run
    again. 4. Delete the rows. If it is interrupted between two steps, it can be repeated.

    Raises:
        UsageError: TIDE-BACK-062, if a driver runs, or rows are in a table already or are being published.
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
    """Return why staged rows may not be deleted; empty if they may."""
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
