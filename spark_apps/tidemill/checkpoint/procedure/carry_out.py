"""Procedures: an operation that changes something is a plan and a sequence of repeatable steps.

An operation first decides: a pure function makes the plan, which is printed. Then `carry_out` acts. A
procedure that is killed anywhere and run again has the same result:

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
        name: Name of the step.
        act: Receives the notes of earlier steps and returns the notes that later steps need. It may run again
            after an interruption or a completion, even while another attempt is still inside it, and must
            have the same effect.
        missing: Reads storage and names the missing part of the effect; empty if the effect is complete. It
            also receives the notes of this step.
    """

    name: str
    act: Callable[[Notes], Notes | None]
    missing: Callable[[Notes], str]


@dataclass(frozen=True)
class Request:
    """One request of an operation. Its id names the journal, the hold and the audit entry.

    Args:
        request_id: Id of the request; see `journal.derived_request_id`.
        by: Operator who asks.
        why: A sentence.
        command: Command that completes it after a crash; the hold shows it.
    """

    verb: str
    pipeline: str
    request_id: str
    by: str
    why: str
    command: str = ""


@dataclass(frozen=True)
class Procedure:
    """A planned operation.

    Args:
        plan: All decisions, as plain data; the steps depend on nothing else.
        steps: Steps in order, with distinct names.
        command: Command that completes it after a crash.
        forbids_starts: False for an operation that changes nothing a driver needs. It takes no hold and
            fences no driver, so it can run while the stream runs.
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
    """Return the procedure of a request."""
    r = request
    return Procedure(r.verb, r.pipeline, r.request_id, r.by, r.why, plan, steps, r.command, forbids_starts)


def plan_of(
    store: Store, layout: Layout, request: Request, make: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the plan that the request began with, or else a new one. Write nothing."""
    begun = read_entry(store, layout, request.pipeline, request.request_id)
    return as_stored(make() if begun is None else begun.plan)


def carry_out(
    store: Store,
    layout: Layout,
    procedure: Procedure,
    verify: Callable[[], None],
    step_done: Callable[[str], None] = lambda _: None,
) -> JournalEntry:
    """Carry out a procedure, or complete an interrupted one. An ended request is left alone.

    1. Take the hold: from here on, no driver starts.
    2. Create the journal with plan and steps. If two requests begin at once, at most one continues.
    3. Claim an epoch, which fences a running driver and any other run of this request.
    4. Run the steps that are not done, and record each in the journal after its effect was verified. Repeat
       recorded steps whose effect is missing.
    5. Verify with the gate. If it refuses, hold and journal stay.
    6. Write the audit entry.
    7. Close the journal, unless the request was abandoned in the meantime. Then release the hold. After a
       crash between the two, a repetition completes the request.

    Args:
        store: Control files.
        layout: Paths in the storage.
        procedure: The procedure.
        verify: Raises if no driver may start from the result.
        step_done: Called with the name of each completed action; tests crash there.

    Raises:
        GateRefusedError: TIDE-CKPT-033, if another request is unfinished; nothing was changed.
        UsageError: TIDE-CKPT-032, if the request id was used for something else, or was abandoned.
        FencedError: TIDE-CKPT-039, if a driver or another run of this request has started, or the request was
            abandoned.
        InternalError: TIDE-CKPT-109, if a step ended and its effect is missing.
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
        """Return the entry with this request's id, and check that it is of this request."""
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
            # Check again, now that other requests can see this entry. If two requests begin at once, both may
            # give way, but never do both continue.
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
        """Repeat a step that the journal has as done although its effect is missing."""
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
        """Check that this attempt has the newest epoch and that its hold exists."""
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
