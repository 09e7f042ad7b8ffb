"""Plan, authorize and carry out an operation; shared by the command line and the DAGs."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemill.errors import GateRefusedError
from tidemill.storage.advance import Told, nobody_told

if TYPE_CHECKING:
    from tidemill.checkpoint.procedure.carry_out import Request
    from tidemill.control.plane import ControlPlane
    from tidemill.control.procedures.parts import VerbParts
    from tidemill.control.runtime import Slot
    from tidemill.spec.project import Environment, Pipeline
    from tidemill.storage.store import Store


@dataclass(frozen=True)
class Hearers:
    """Progress callbacks of a running operation.

    Args:
        step_done: Called with each finished step.
        told: Called with the progress of a copy.
    """

    step_done: Callable[[str], None] = lambda _: None
    told: Told = nobody_told


NOBODY = Hearers()


@dataclass(frozen=True)
class Asking:
    """The request for an operation, and the same request on the command line.

    Args:
        verb: The operation.
        words: Its own arguments, as on the command line.
        by: The requester; empty for this machine's user.
        approved_by: The approver; empty if there is none.
        reason: The reason.
        request_id: Id of the request; empty for a generated one.
        command: Returns a command line of given words, with the global options.
        group: Command group of the operation.
    """

    verb: str
    words: tuple[str, ...]
    by: str
    command: Callable[..., str]
    approved_by: str = ""
    reason: str = ""
    request_id: str = ""
    group: str = "checkpoint"

    @property
    def asker(self) -> str:
        """Return the requester."""
        return self.by or getpass.getuser()

    @property
    def person(self) -> str:
        """Return the requester and the approver."""
        return f"{self.asker}, approved by {self.approved_by}" if self.approved_by else self.asker


@dataclass(frozen=True)
class Planned:
    """An operation with its plan.

    Args:
        parts: The operation.
        request: The request, as in journal and audit.
        plan: The plan that it began with, or would begin with now.
        has_begun: True if it is in the journal already.
    """

    parts: VerbParts
    request: Request
    plan: Mapping[str, Any]
    has_begun: bool = False

    @property
    def has_work(self) -> bool:
        """Return True if the plan changes anything."""
        return self.parts.has_work(self.plan)

    @property
    def lines(self) -> list[str]:
        """Return the plan in readable form."""
        return self.parts.lines(self.plan)

    def check_consent(self) -> None:
        """Raise if the plan loses data without consent; a started operation already had consent.

        Raises:
            UsageError: If the consent is missing.
        """
        if not self.has_begun:
            self.parts.consent(self.plan)


def plan_verb(asking: Asking, parts: VerbParts, pipeline: str) -> Planned:
    """Make the plan, or load the one that this request began with. Writes nothing.

    Args:
        asking: The request.
        parts: The operation.
        pipeline: The pipeline in the command; the operation may change another one.

    Raises:
        GateRefusedError: TIDE-CKPT-033, if another request is unfinished.
    """
    from tidemill.checkpoint.procedure.carry_out import plan_of
    from tidemill.checkpoint.procedure.journal import read_entry
    from tidemill.checkpoint.procedure.unfinished import check_nothing_else_unfinished
    from tidemill.storage.store import Store

    changed = parts.pipeline
    store = Store(changed.layout.root)
    request = _request(asking, store, changed, pipeline)
    check_nothing_else_unfinished(store, changed.layout, changed.name, request.request_id)
    begun = read_entry(store, changed.layout, changed.name, request.request_id)
    return Planned(
        parts, request, plan_of(store, changed.layout, request, parts.make_plan), begun is not None
    )


def act(
    plane: ControlPlane,
    asking: Asking,
    planned: Planned,
    hearers: Hearers = NOBODY,
) -> None:
    """Carry out a plan if it is allowed.

    Args:
        plane: The control plane.
        asking: The request.
        planned: The plan.
        hearers: Progress callbacks.

    Raises:
        GateRefusedError: See `check_allowed`; also if the gate refuses the result.
        UsageError: If the plan loses data without consent.
    """
    from tidemill.checkpoint.procedure.carry_out import carry_out, procedure_of
    from tidemill.storage.store import Store

    parts, request, plan = planned.parts, planned.request, planned.plan
    check_allowed(plane, asking, parts.pipeline, parts.forbids_starts)
    planned.check_consent()
    store = Store(parts.pipeline.layout.root)
    steps = parts.steps(request, plan, hearers.told)
    procedure = procedure_of(request, plan, steps, forbids_starts=parts.forbids_starts)
    verify = partial(_ask_gate, store, parts.pipeline) if parts.forbids_starts else lambda: None
    carry_out(store, parts.pipeline.layout, procedure, verify, hearers.step_done)


def check_allowed(plane: ControlPlane, asking: Asking, pipeline: Pipeline, forbids_starts: bool) -> None:
    """Raise if an operation must not act.

    Raises:
        GateRefusedError: TIDE-CKPT-035 if a driver runs, TIDE-CKPT-036 without the approval that a protected
            environment needs; TIDE-CTRL-010, if another control plane owns the storage root.
    """
    if pipeline.environment.spec.protected:
        check_approval(asking, pipeline.environment)
    plane.own()
    slots: tuple[Slot, ...] = ("main", "backfill") if forbids_starts else ()
    driver = next(filter(None, (plane.running(pipeline.name, slot) for slot in slots)), None)
    if driver is not None:
        raise GateRefusedError(
            "TIDE-CKPT-035",
            "A driver of this pipeline runs. Nothing was changed.",
            facts={"pipeline": pipeline.name, "run": driver.run_id, "process": driver.process},
            fix=f"stop it, and start it again afterwards: {asking.command('stop', pipeline.name)}"
            if driver.mode != "backfill"
            else "wait for the end of the backfill",
            runbook="unfinished-procedure",
        )


def check_approval(asking: Asking, environment: Environment) -> None:
    """Raise unless a second user has approved.

    Raises:
        GateRefusedError: TIDE-CKPT-036.
    """
    from tidemill.checkpoint.procedure.request import check_person

    by = check_person(asking.asker)
    check_person(asking.person)
    if not asking.approved_by or asking.approved_by == by:
        raise GateRefusedError(
            "TIDE-CKPT-036",
            "This environment is protected, and nobody else has approved. Nothing was changed.",
            facts={"environment": environment.name, "by": by, "approved_by": asking.approved_by},
            fix="let someone else read the plan, and name them: --approved-by NAME",
            runbook="unfinished-procedure",
        )


def next_words(plane: ControlPlane, pipeline: Pipeline, then: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the next command: `then`, or the start, unless a hold prevents it or a driver runs."""
    from tidemill.checkpoint.holds import read_holds

    name = pipeline.name
    if then:
        return (*then, name)
    if read_holds(plane.store, pipeline.layout, name):
        return ("checkpoint", "release", name)
    if plane.running(name) is not None:
        return ("status", name)
    if pipeline.spec.run.mode == "stream":
        return ("start", name)
    return ("run", name, "--mode", "incremental")


def acting_words(asking: Asking, pipeline: str, environment: Environment) -> tuple[str, ...]:
    """Return the complete command, with placeholders for the reason and a required approval."""
    approval = ("--approved-by", "NAME") if environment.spec.protected else ()
    return (asking.group, asking.verb, pipeline, *asking.words, "--reason", "TEXT", "--apply", *approval)


def _ask_gate(store: Store, pipeline: Pipeline) -> None:
    """Run the gate as a driver does before a start, without holds.

    Raises:
        GateRefusedError: Reason why no driver may start from the live generation.
    """
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.gate import check, gather_facts

    current = read_current(store, pipeline.layout, pipeline.name)
    if current is not None:
        check(gather_facts(store, pipeline, current.generation))


def _request(asking: Asking, store: Store, changed: Pipeline, pipeline: str) -> Request:
    from tidemill.checkpoint.procedure.carry_out import Request
    from tidemill.checkpoint.procedure.journal import derived_request_id
    from tidemill.checkpoint.procedure.request import check_request_id

    arguments = {"arguments": list(asking.words)}
    derive = partial(derived_request_id, store, changed.layout, changed.name, asking.verb, arguments)
    request_id = check_request_id(asking.request_id) if asking.request_id else derive()
    given = {"--reason": asking.reason, "--by": asking.by, "--approved-by": asking.approved_by}
    told = [word for flag, value in given.items() if value for word in (flag, value)]
    words = (asking.group, asking.verb, pipeline, *asking.words, *told, "--apply", "--request-id", request_id)
    return Request(
        asking.verb, changed.name, request_id, asking.person, asking.reason, asking.command(*words)
    )
