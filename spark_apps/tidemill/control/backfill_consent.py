"""Approval of backfills in a protected environment, by the rule of the operations."""

from __future__ import annotations

from datetime import datetime

from tidemill.backfill.plan import load_plan
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.run import Asking, check_approval


def check_consent(plane: ControlPlane, asking: Asking) -> None:
    """Raise if an approval is needed and missing.

    Raises:
        GateRefusedError: TIDE-CKPT-036.
    """
    if plane.environment.spec.protected:
        check_approval(asking, plane.environment)


def allow_backfill(plane: ControlPlane, asking: Asking, pipeline: str, digest: str, at: datetime) -> None:
    """Allow a plan to be carried out; if it needs an approval, audit the requester and the approver.

    Args:
        plane: The control plane.
        asking: Requester and approver.
        pipeline: Name of the pipeline.
        digest: Digest of the plan.
        at: Time of the approval; each approval leaves one audit entry, even if the work is repeated.

    Raises:
        GateRefusedError: TIDE-CKPT-036, or if another control plane owns the storage root.
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
