"""In a protected environment someone else approves a backfill, by the rule of the verbs."""

from __future__ import annotations

from datetime import datetime

from tidemill.backfill.plan import load_plan
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.run import Asking, check_approval


def check_consent(plane: ControlPlane, asking: Asking) -> None:
    """See that someone else has approved, where that is needed.

    Raises:
        GateRefusedError: TIDE-CKPT-036.
    """
    if plane.environment.spec.protected:
        check_approval(asking, plane.environment)


def allow_backfill(plane: ControlPlane, asking: Asking, pipeline: str, digest: str, at: datetime) -> None:
    """Let a plan be carried out. Where that needs an approval, the audit keeps who asked and who approved.

    Args:
        plane: Where.
        asking: Who asks, and who approved.
        pipeline: Its name.
        digest: Of the plan.
        at: When it was approved; the same approval leaves one entry, however often the work is repeated.

    Raises:
        GateRefusedError: TIDE-CKPT-036, or if the storage root is another control plane's.
        UsageError: TIDE-BACK-016, if there is no such plan.
    """
    check_consent(plane, asking)
    if not plane.environment.spec.protected:
        return
    plan = load_plan(plane.store, plane.layout, pipeline, digest)
    plane.own()
    entry = AuditEntry(
        verb="backfill apply",
        pipeline=pipeline,
        request_id=f"backfill-apply-{digest}-{at:%Y%m%dt%H%M%S%f}",
        by=asking.person,
        why=asking.reason,
        at=at,
        plan={"plan": digest, "range": plan.bounds.text()},
    )
    write_audit(plane.store, plane.layout, entry)
