"""Procedures: a verb that changes something is a plan and numbered steps that may be repeated.

A verb first decides (a pure function makes the plan, which is printed), then `carry_out` acts. Killed
anywhere and run again, a procedure comes to the same end:

    request = Request("rewind", pipeline, request_id, by, why)
    plan = plan_of(store, layout, request, lambda: make_plan(facts))
    carry_out(store, layout, procedure_of(request, plan, steps_of(plan)), verify)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, is_held, take_hold
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.procedure.journal import (
    JournalEntry,
    Notes,
    alive_path,
    as_stored,
    create_entry,
    drop_entry,
    end_entry,
    note_step,
    read_entry,
)
from tidemill.checkpoint.procedure.request import check_person, check_reason, check_request_id
from tidemill.checkpoint.procedure.sign_of_life import shown_alive
from tidemill.checkpoint.procedure.unfinished import check_nothing_else_unfinished
from tidemill.errors import FencedError, GateRefusedError, InternalError, UsageError
from tidemill.names import Layout, check_pipeline_name
from tidemill.storage.store import Store


@dataclass(frozen=True)
class Step:
    """One step.

    Args:
        name: Of the step.
        act: Gets the notes of earlier steps and returns what later ones need. It may run again after it was
            cut short or completed, to the same effect, also while another attempt is still inside it.
        missing: Reads storage, and names the part of the effect that is not there; empty if all of it is. It
            gets the notes of this step as well.
    """

    name: str
    act: Callable[[Notes], Notes | None]
    missing: Callable[[Notes], str]


@dataclass(frozen=True)
class Request:
    """One request of a verb: what the journal, the hold and the audit are named for.

    Args:
        request_id: Names it; see `journal.derived_request_id`.
        by: Who asks.
        why: A sentence.
        command: What completes it after a crash, for the hold to show.
    """

    verb: str
    pipeline: str
    request_id: str
    by: str
    why: str
    command: str = ""


@dataclass(frozen=True)
class Procedure:
    """A planned verb.

    Args:
        plan: All that was decided, as plain data; the steps are made from it alone.
        steps: In order; their names differ.
        command: What completes it after a crash.
        forbids_starts: False for a verb that touches nothing a driver needs: it takes no hold and fences
            nobody off, so that it can run beside a live stream.
    """

    verb: str
    pipeline: str
    request_id: str
    by: str
    why: str
    plan: Mapping[str, Any]
    steps: tuple[Step, ...]
    command: str = ""
    forbids_starts: bool = True


def procedure_of(
    request: Request, plan: Mapping[str, Any], steps: tuple[Step, ...], *, forbids_starts: bool = True
) -> Procedure:
    """The procedure of a request."""
    r = request
    return Procedure(r.verb, r.pipeline, r.request_id, r.by, r.why, plan, steps, r.command, forbids_starts)


def plan_of(
    store: Store, layout: Layout, request: Request, make: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """The plan that the request began with, else a new one. Writes nothing."""
    begun = read_entry(store, layout, request.pipeline, request.request_id)
    return as_stored(make() if begun is None else begun.plan)


def carry_out(
    store: Store,
    layout: Layout,
    procedure: Procedure,
    verify: Callable[[], None],
    step_done: Callable[[str], None] = lambda _: None,
) -> JournalEntry:
    """Carry a procedure out, or complete one that was cut short. A request that has ended is left alone.

    1. Hold: no driver starts from here on.
    2. Journal: plan and steps. Of two requests that begin at once at most one goes on.
    3. Epoch: a driver that still runs is fenced off, and so is another run of this request.
    4. The steps that are not done yet, each noted in the journal once its effect was read back; and those
       that are noted as done but whose effect is not there.
    5. Verify: the gate. If it refuses, hold and journal stay.
    6. Audit entry.
    7. The journal is closed, unless the request was given up meanwhile; then the hold is released: one that
       dies between is completed by a repetition.

    Args:
        store: Control files.
        layout: Where they are.
        procedure: What to do.
        verify: Raises if the result must not be started from.
        step_done: Called with the name of each thing done; tests crash there.

    Raises:
        GateRefusedError: TIDE-CKPT-033, if another request is unfinished; nothing was changed.
        UsageError: TIDE-CKPT-032, if the request id was used for something else, or was given up.
        FencedError: TIDE-CKPT-039, if a driver or another run of this request has started meanwhile, or the
            request was given up.
        InternalError: TIDE-CKPT-109, if a step ended and its effect is not there.
    """
    return _Run(store, layout, procedure, step_done).to_its_end(verify)


class _Run:
    """One attempt at a procedure."""

    def __init__(
        self, store: Store, layout: Layout, procedure: Procedure, step_done: Callable[[str], None]
    ) -> None:
        check_pipeline_name(procedure.pipeline)
        check_request_id(procedure.request_id)
        check_person(procedure.by)
        check_reason(procedure.why)
        self._store = store
        self._layout = layout
        self._procedure = procedure
        self._step_done = step_done
        self._epoch = 0

    def to_its_end(self, verify: Callable[[], None]) -> JournalEntry:
        entry = self._known()
        if entry is None or entry.state == "begun":
            entry = self._begin()
            with shown_alive(self._store, alive_path(self._layout, entry.pipeline, entry.request_id)):
                entry = self._work(entry, verify)
        drop_hold(self._store, self._layout, entry.pipeline, entry.request_id)
        self._step_done("release")
        return entry

    def _work(self, entry: JournalEntry, verify: Callable[[], None]) -> JournalEntry:
        # 4.
        for step in self._procedure.steps[: entry.done]:
            self._do_again_if_undone(entry, step)
        for step in self._procedure.steps[entry.done :]:
            entry = self._advance(entry, step)
        # 5.
        self._check_right()
        verify()
        self._step_done("verify")
        # 6.
        write_audit(self._store, self._layout, self._audit(entry))
        self._step_done("audit")
        # 7.
        entry = end_entry(self._store, self._layout, entry, "verified")
        if entry.state != "verified":
            raise self._fenced()
        self._step_done("close")
        return entry

    def _begin(self) -> JournalEntry:
        procedure = self._procedure
        check_nothing_else_unfinished(self._store, self._layout, procedure.pipeline, procedure.request_id)
        # 1.
        if procedure.forbids_starts:
            take_hold(self._store, self._layout, procedure.pipeline, self._hold())
            self._step_done("hold")
        # 2.
        entry = self._known() or self._open()
        self._step_done("journal")
        # 3.
        if procedure.forbids_starts:
            self._epoch = claim_epoch(
                self._store, self._layout, procedure.pipeline, f"verb {procedure.request_id}"
            )
            self._step_done("epoch")
        return entry

    def _known(self) -> JournalEntry | None:
        """The request's own entry, if it is this request's."""
        procedure = self._procedure
        entry = read_entry(self._store, self._layout, procedure.pipeline, procedure.request_id)
        if entry is None:
            return None
        steps = tuple(step.name for step in procedure.steps)
        wanted = (procedure.verb, as_stored(procedure.plan), steps)
        if wanted != (entry.verb, entry.plan, entry.steps) or entry.state == "abandoned":
            raise UsageError(
                "TIDE-CKPT-032",
                "This request id was used for something else, or was given up. Nothing was changed.",
                facts={"request_id": entry.request_id, "verb": entry.verb, "state": entry.state},
                fix="name another one, or none",
            )
        return entry

    def _open(self) -> JournalEntry:
        procedure = self._procedure
        live = read_current(self._store, self._layout, procedure.pipeline)
        entry = JournalEntry(
            verb=procedure.verb,
            pipeline=procedure.pipeline,
            request_id=procedure.request_id,
            by=procedure.by,
            why=procedure.why,
            plan=as_stored(procedure.plan),
            steps=tuple(step.name for step in procedure.steps),
            before=None if live is None else live.model_dump(mode="json"),
            command=procedure.command,
        )
        if not create_entry(self._store, self._layout, entry):
            return self._known() or entry
        try:
            # Again, now that the other one would see this entry: two that begin at once may both give
            # way, but never both go on.
            check_nothing_else_unfinished(self._store, self._layout, entry.pipeline, entry.request_id)
        except GateRefusedError:
            drop_entry(self._store, self._layout, entry)
            drop_hold(self._store, self._layout, entry.pipeline, entry.request_id)
            raise
        return entry

    def _advance(self, entry: JournalEntry, step: Step) -> JournalEntry:
        self._check_right()
        notes = as_stored(step.act(entry.notes) or {})
        self._check_effect(step, {**entry.notes, **notes})
        noted = note_step(self._store, self._layout, entry, notes)
        if noted is None:
            raise self._fenced()
        self._step_done(step.name)
        return noted

    def _do_again_if_undone(self, entry: JournalEntry, step: Step) -> None:
        """Repeat a step that the journal has as done, although its effect is not there."""
        if step.missing(entry.notes):
            self._check_right()
            step.act(entry.notes)
            self._check_effect(step, entry.notes)

    def _check_effect(self, step: Step, notes: Notes) -> None:
        missing = step.missing(notes)
        if missing:
            raise self._without_effect(step, missing)

    def _without_effect(self, step: Step, missing: str) -> InternalError:
        procedure = self._procedure
        return InternalError(
            "TIDE-CKPT-109",
            "A step of this request ended without an error, and its effect is not there. The request stays "
            "unfinished, and no driver starts.",
            facts={
                "pipeline": procedure.pipeline,
                "request_id": procedure.request_id,
                "step": step.name,
                "missing": missing,
            },
            fix=f"run the same command again, which repeats the step: {procedure.command}",
            runbook="unfinished-procedure",
        )

    def _check_right(self) -> None:
        """Go on only as the newest of all that claimed an epoch, and as long as the hold stands."""
        procedure = self._procedure
        if not procedure.forbids_starts:
            return
        newest = newest_epoch(self._store, self._layout, procedure.pipeline)
        if newest > self._epoch or not is_held(
            self._store, self._layout, procedure.pipeline, procedure.request_id
        ):
            raise self._fenced()

    def _fenced(self) -> FencedError:
        procedure = self._procedure
        return FencedError(
            "TIDE-CKPT-039",
            "A driver, or another run of this request, has started meanwhile, or the request was given up. "
            "This one went no further.",
            facts={
                "pipeline": procedure.pipeline,
                "request_id": procedure.request_id,
                "epoch": self._epoch,
                "newest_epoch": newest_epoch(self._store, self._layout, procedure.pipeline),
            },
            fix=f"see which: tidemill checkpoint release {procedure.pipeline}; stop a driver, then complete "
            f"the request: {procedure.command or procedure.request_id}",
            runbook="unfinished-procedure",
        )

    def _hold(self) -> Hold:
        procedure = self._procedure
        why = f"{procedure.verb}: {procedure.why}"
        return Hold(id=procedure.request_id, by=procedure.by, why=why, to_do=procedure.command)

    def _audit(self, entry: JournalEntry) -> AuditEntry:
        live = read_current(self._store, self._layout, entry.pipeline)
        return AuditEntry(
            verb=entry.verb,
            pipeline=entry.pipeline,
            request_id=entry.request_id,
            by=entry.by,
            why=entry.why,
            at=entry.begun_at,
            plan=entry.plan,
            before=entry.before,
            after=None if live is None else live.model_dump(mode="json"),
        )
