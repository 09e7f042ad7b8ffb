"""Holds by hand: taking one, and releasing any, with an audit entry."""

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
    """Forbid starts; False if there is a hold of this id already, which then stays as it is.

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
    """All holds, and unfinished requests that hold nobody but make other verbs wait."""
    holds = read_holds(store, layout, pipeline)
    held = {hold.id for hold in holds}
    waiting = (e for e in unfinished_entries(store, layout, pipeline) if e.request_id not in held)
    return [
        *holds,
        *(Hold(id=e.request_id, by=e.by, at=e.begun_at, why=_why(e), to_do=e.command) for e in waiting),
    ]


def check_releasable(store: Store, layout: Layout, pipeline: str, hold_id: str, *, force: bool) -> Hold:
    """The hold, if it may be released.

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
    """The hold as it was, if it is gone by a release for this very reason: its worker died before it heard.

    Args:
        store: Control files.
        layout: Where they are.
        pipeline: Whose hold.
        hold_id: The hold.
        why: The reason, with what makes it one request's own.
    """
    if any(hold.id == hold_id for hold in releasable(store, layout, pipeline)):
        return None
    for entry in read_audit(store, layout, pipeline):
        if (entry.verb, entry.request_id, entry.why) == ("release", hold_id, why):
            return Hold.model_validate(entry.before)
    return None


def release(store: Store, layout: Layout, pipeline: str, released: Hold, *, force: bool = False) -> Hold:
    """Release a hold. With `force` its unfinished request is abandoned: it never continues.

    1. Check.
    2. Audit: who dies after this step releases again.
    3. An attempt that is still at work is fenced off before its next step, and cannot end as verified.
    4. Its number among the live generations is taken, for an attempt that stands still just before its
       switch.
    5. The hold goes.

    Args:
        store: Control files.
        layout: Where they are.
        pipeline: Whose hold.
        released: Its id, and who releases it, when and why.
        force: Abandon the unfinished request behind it.

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
