"""Takeover of a storage root from another control plane: planned, then applied by an operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.procedure.request import check_person, check_reason
from tidemill.checkpoint.root_owner import RootOwner, read_owner, write_owner
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.decide.reconcile import LONGEST_SILENCE_OF_NEWER
from tidemill.control.plane import ControlPlane
from tidemill.errors import DataError, TidemillError


@dataclass(frozen=True)
class Takeover:
    """Plan of a takeover.

    Args:
        root: The storage root.
        before: Current owner; None if there is none, or if the record is damaged.
        damage: Damage of the owner's record.
        after: New owner.
        fenced: Pipelines whose former drivers are fenced off.
        alive: Recent statuses of their drivers, which may still run.
    """

    root: str
    before: RootOwner | None
    damage: str
    after: RootOwner
    fenced: tuple[str, ...]
    alive: tuple[Status, ...]

    @property
    def has_work(self) -> bool:
        """Return True unless this control plane already owns the root."""
        standing = self.before
        return standing is None or standing.id != self.after.id or standing.fencing

    def lines(self, now: datetime) -> list[str]:
        """Return the plan in readable form."""
        if not self.has_work:
            return [f"{self.root} belongs to this control plane: {self.after}"]
        owner = "nobody" if self.before is None else f"{self.before}, on {self.before.host}"
        heard = [
            f"  {seen.pipeline}: run {seen.run_id}, {seen.state}, heard of {_seconds(seen, now)} s ago"
            for seen in self.alive
        ]
        return [
            f"root      {self.root}",
            f"owner     {self.damage or owner}",
            f"new owner {self.after}, on {self.after.host}",
            f"fenced    {', '.join(self.fenced) or 'nothing: no driver ever ran'}",
            *(
                ["Drivers that were heard of lately, and end before their next batch:", *heard]
                if heard
                else []
            ),
            "Starts over there are refused from then on; streams run again when they are started here.",
        ]


def plan_takeover(plane: ControlPlane, now: datetime) -> Takeover:
    """Plan a takeover; changes nothing."""
    before, damage = None, ""
    try:
        before = read_owner(plane.store, plane.layout)
    except DataError as error:
        damage = f"unknown: {error.error_id} {error.problem}"
    names = tuple(
        name
        for name in plane.store.list_names(plane.layout.states)
        if newest_epoch(plane.store, plane.layout, name)
    )
    statuses = (_last_words(plane, name) for name in names)
    alive = tuple(status for status in statuses if status is not None and _is_heard_of(status, now))
    return Takeover(plane.layout.root, before, damage, plane.as_owner(), names, alive)


def take_over(plane: ControlPlane, plan: Takeover, by: str, why: str) -> None:
    """Make this control plane the owner of the root.

    1. Write the audit entry. 2. Become the owner, so that the former control plane starts no more drivers. 3.
    Claim a higher epoch for each pipeline, so that drivers that still run there end before their next batch.
    4. Mark the takeover as complete. A process that dies after step 2 owns the root, but no driver starts
    until the takeover is repeated.

    Raises:
        UsageError: TIDE-CKPT-031, if `by` or `why` cannot be stored.
    """
    after = plan.after.model_copy(update={"by": check_person(by), "why": check_reason(why), "fencing": True})
    # 1.
    request_id = f"takeover-{after.at:%Y%m%dt%H%M%S%f}"
    write_audit(
        plane.store,
        plane.layout,
        AuditEntry(
            verb="takeover",
            request_id=request_id,
            by=by,
            why=why,
            at=after.at,
            before=None if plan.before is None else plan.before.model_dump(mode="json"),
            after=after.model_dump(mode="json"),
        ),
    )
    # 2.
    write_owner(plane.store, plane.layout, after)
    # 3.
    for pipeline in plan.fenced:
        claim_epoch(plane.store, plane.layout, pipeline, request_id)
    # 4.
    write_owner(plane.store, plane.layout, after.model_copy(update={"fencing": False}))


def _last_words(plane: ControlPlane, pipeline: str) -> Status | None:
    try:
        return read_status(plane.store, plane.layout, pipeline)
    except (TidemillError, ValueError):
        # A damaged status must not prevent a takeover.
        return None


def _is_heard_of(status: Status, now: datetime) -> bool:
    at_work = status.state not in ("stopped", "failed")
    return at_work and status.age(now) < LONGEST_SILENCE_OF_NEWER


def _seconds(status: Status, now: datetime) -> int:
    return status.age(now) // timedelta(seconds=1)
