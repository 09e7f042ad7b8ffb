"""`hold` and `release`: take a hold by hand, and release any hold, with an audit entry."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.checkpoint.current import read_current, switch_generation
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, is_held, read_holds, take_hold
from tidemill.checkpoint.procedure.audit import AuditEntry, read_audit, write_audit
from tidemill.checkpoint.procedure.journal import (
    JournalEntry,
    end_entry,
    read_entry,
    unfinished_entries,
)
from tidemill.checkpoint.procedure.request import check_person, check_reason, check_request_id
from tidemill.errors import GateRefusedError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store


def hold_by_hand(store: Store, layout: Layout, pipeline: str, hold: Hold) -> bool:
    """Forbid starts; return False if a hold with this id already exists, which then stays unchanged.

    Raises:
        UsageError: TIDE-CKPT-030, TIDE-CKPT-031.
    """
    check_person(hold.by)
    check_reason(hold.why)
    taken = take_hold(store, layout, pipeline, hold)
    if taken:
        write_audit(store, layout, _entry("hold", pipeline, hold))
    return taken


def releasable(store: Store, layout: Layout, pipeline: str) -> list[Hold]:
    """Return all holds, and unfinished requests that have no hold but make other operations wait."""
    holds = read_holds(store, layout, pipeline)
    held = {hold.id for hold in holds}
    waiting = (e for e in unfinished_entries(store, layout, pipeline) if e.request_id not in held)
    return [
        *holds,
        *(Hold(id=e.request_id, by=e.by, at=e.begun_at, why=_why(e), to_do=e.command) for e in waiting),
    ]


def check_releasable(store: Store, layout: Layout, pipeline: str, hold_id: str, *, force: bool) -> Hold:
    """Return the hold if it may be released.

    Raises:
        UsageError: TIDE-CKPT-034, if there is no such hold.
        GateRefusedError: TIDE-CKPT-037, if its request is unfinished and `force` is not given.
    """
    check_request_id(hold_id)
    holds = releasable(store, layout, pipeline)
    found = next((hold for hold in holds if hold.id == hold_id), None)
    if found is None:
        raise UsageError(
            "TIDE-CKPT-034",
            "There is no such hold.",
            facts={"pipeline": pipeline, "hold": hold_id, "holds": [hold.id for hold in holds] or "none"},
            fix="name one of those that are there",
        )
    entry = read_entry(store, layout, pipeline, hold_id)
    if entry is not None and entry.state == "begun" and not force:
        raise _unfinished(entry)
    return found


def released_before(store: Store, layout: Layout, pipeline: str, hold_id: str, why: str) -> Hold | None:
    """Return the former hold if this very request has released it, and died before it got the answer.

    Args:
        store: Control files.
        layout: Paths in the storage.
        pipeline: Pipeline of the hold.
        hold_id: Id of the hold.
        why: Reason, with a part that is unique to the request.
    """
    if any(hold.id == hold_id for hold in releasable(store, layout, pipeline)):
        return None
    for entry in read_audit(store, layout, pipeline):
        if (entry.verb, entry.request_id, entry.why) == ("release", hold_id, why):
            return Hold.model_validate(entry.before)
    return None


def release(store: Store, layout: Layout, pipeline: str, released: Hold, *, force: bool = False) -> Hold:
    """Release a hold. With `force`, its unfinished request is abandoned and never continues.

    1. Check.
    2. Write the audit entry. If the process dies after this step, the operator releases again.
    3. Fence an attempt that still runs before its next step, so it cannot end as verified.
    4. Take the attempt's number among the live generations, in case it stalls just before its switch.
    5. Remove the hold.

    Args:
        store: Control files.
        layout: Paths in the storage.
        pipeline: Pipeline of the hold.
        released: Id of the hold, with the operator, time and reason of the release.
        force: True to abandon the unfinished request of the hold.

    Returns:
        The hold as it was.
    """
    check_person(released.by)
    check_reason(released.why)
    # 1.
    found = check_releasable(store, layout, pipeline, released.id, force=force)
    # 2.
    write_audit(store, layout, _entry("release", pipeline, released, found))
    entry = read_entry(store, layout, pipeline, released.id)
    if entry is not None and entry.state == "begun":
        # 3.
        if is_held(store, layout, pipeline, released.id):
            claim_epoch(store, layout, pipeline, f"release {released.id}")
        entry = end_entry(store, layout, entry, "abandoned")
        # 4.
        _keep_generation(store, layout, entry, released.by)
    # 5.
    drop_hold(store, layout, pipeline, released.id)
    return found


def _keep_generation(store: Store, layout: Layout, abandoned: JournalEntry, by: str) -> None:
    live = read_current(store, layout, abandoned.pipeline)
    if live is None or live.request_id == abandoned.request_id or "number" not in abandoned.plan:
        return
    why = f"{abandoned.verb} {abandoned.request_id} was given up"
    kept = {"number": live.number + 1, "since": datetime.now(UTC), "why": why, "by": by, "request_id": None}
    switch_generation(store, layout, live.model_copy(update=kept))


def _why(entry: JournalEntry) -> str:
    return f"{entry.verb}: {entry.why} (forbids no start)"


def _entry(verb: str, pipeline: str, asked: Hold, before: Hold | None = None) -> AuditEntry:
    return AuditEntry(
        verb=verb,
        pipeline=pipeline,
        request_id=asked.id,
        by=asked.by,
        why=asked.why,
        at=asked.at,
        before=None if before is None else before.model_dump(mode="json"),
        after=asked.model_dump(mode="json") if verb == "hold" else None,
    )


def _unfinished(entry: JournalEntry) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-037",
        "The verb that took this hold has not come to its end. The hold stays.",
        facts={
            "pipeline": entry.pipeline,
            "hold": entry.request_id,
            "verb": entry.verb,
            "done": entry.progress,
        },
        fix=f"complete it: {entry.command}; to give it up for good, release with --force",
        runbook="unfinished-procedure",
    )
