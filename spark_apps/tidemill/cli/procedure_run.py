"""The way of every verb that changes a checkpoint: plan, print, and with --apply carry out."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import Invocation
from tidemill.cli.output import print_json, say
from tidemill.errors import GateRefusedError

if TYPE_CHECKING:
    from tidemill.checkpoint.procedure.carry_out import Procedure, Request, Step
    from tidemill.control.runtime import Slot
    from tidemill.spec.project import Pipeline
    from tidemill.storage.store import Store

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Apply = Annotated[bool, typer.Option("--apply", help="Carry the plan out; without it nothing is changed.")]
Reason = Annotated[str, typer.Option(help="Why; needed with --apply, kept in journal and audit.")]
By = Annotated[str, typer.Option(help="Who asks. Default: the user of this machine.")]
ApprovedBy = Annotated[
    str, typer.Option(help="Who approves; needed with --apply in a protected environment.")
]
RequestId = Annotated[str, typer.Option(help="Name of this request; by default the verb makes one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Asked:
    """What a command line asks of a verb.

    Args:
        invocation: Its global options.
        verb: The verb.
        pipeline: Name.
        arguments: What else tells this request from others of the verb, as written on the command line.
        apply: Whether to act.
        by: Who; empty for this machine's user.
        why: The reason.
        approved_by: Who approves.
        request_id: Given id, or empty.
        as_json: Whether to print JSON.
    """

    invocation: Invocation
    verb: str
    pipeline: str
    arguments: Sequence[str] = ()
    apply: bool = False
    by: str = ""
    why: str = ""
    approved_by: str = ""
    request_id: str = ""
    as_json: bool = False

    @property
    def person(self) -> str:
        """Who asks, and who approves."""
        asking = asking_person(self.by)
        return f"{asking}, approved by {self.approved_by}" if self.approved_by else asking


def asking_person(named: str) -> str:
    """Who asks: who is named, else this machine's user."""
    return named or getpass.getuser()


@dataclass(frozen=True)
class VerbParts:
    """What makes one verb out of the common way.

    Args:
        make_plan: Gathers facts and decides; plain data. Raises if the verb refuses. Writes nothing.
        steps: Made from the plan alone.
        lines: The plan as a person reads it.
        verify: Whether the result may be started from; by default the gate.
        forbids_starts: False for a verb that may run beside a live stream.
        has_work: Whether a plan changes anything; one that does not is not carried out.
    """

    make_plan: Callable[[], Mapping[str, Any]]
    steps: Callable[[Request, Mapping[str, Any]], tuple[Step, ...]]
    lines: Callable[[Mapping[str, Any]], list[str]]
    verify: Callable[[], None] | None = None
    forbids_starts: bool = True
    has_work: Callable[[Mapping[str, Any]], bool] = lambda _: True


def run_procedure(asked: Asked, pipeline: Pipeline, parts: VerbParts) -> None:
    """Plan, print, and carry out if asked to.

    Raises:
        GateRefusedError: TIDE-CKPT-033 if another request is unfinished, TIDE-CKPT-035 if a driver runs,
            TIDE-CKPT-036 without the approval that a protected environment needs.
    """
    from tidemill.checkpoint.procedure.carry_out import plan_of, procedure_of
    from tidemill.checkpoint.procedure.unfinished import check_nothing_else_unfinished
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    request = _request(asked, store, pipeline)
    check_nothing_else_unfinished(store, pipeline.layout, pipeline.name, request.request_id)
    plan = plan_of(store, pipeline.layout, request, parts.make_plan)
    if not asked.as_json:
        for line in parts.lines(plan):
            say(line)
    acts = asked.apply and parts.has_work(plan)
    if acts:
        check_allowed(asked, pipeline, parts.forbids_starts)
        steps = parts.steps(request, plan)
        procedure = procedure_of(request, plan, steps, forbids_starts=parts.forbids_starts)
        _carry_out(store, pipeline, procedure, parts.verify)
    if asked.as_json:
        print_json({"request_id": request.request_id, "applied": acts, "plan": plan})
    elif acts:
        say(f"Done. Request: {request.request_id}")
    else:
        say("Nothing was done." if asked.apply else "Nothing was done. With --apply it is carried out.")


def check_allowed(asked: Asked, pipeline: Pipeline, forbids_starts: bool) -> None:
    """Let a verb act.

    Raises:
        GateRefusedError: TIDE-CKPT-035, TIDE-CKPT-036.
    """
    if pipeline.environment.spec.protected:
        _check_approval(asked, pipeline)
    plane = asked.invocation.control_plane()
    slots: tuple[Slot, ...] = ("main", "backfill") if forbids_starts else ()
    driver = next(filter(None, (plane.running(pipeline.name, slot) for slot in slots)), None)
    if driver is not None:
        raise GateRefusedError(
            "TIDE-CKPT-035",
            "A driver of this pipeline runs. Nothing was changed.",
            facts={"pipeline": pipeline.name, "run": driver.run_id, "process": driver.process},
            fix=f"stop it, and start it again afterwards: tidemill stop {pipeline.name}"
            if driver.mode != "backfill"
            else "wait for the end of the backfill",
            runbook="unfinished-procedure",
        )


def gate(pipeline: Pipeline) -> None:
    """The gate, as a driver asks it before a start, apart from holds.

    Raises:
        GateRefusedError: Why no driver may start from the live generation.
    """
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.gate import check, gather_facts
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    current = read_current(store, pipeline.layout, pipeline.name)
    if current is not None:
        check(gather_facts(store, pipeline, current.generation))


def _carry_out(
    store: Store, pipeline: Pipeline, procedure: Procedure, verify: Callable[[], None] | None
) -> None:
    from tidemill.checkpoint.procedure.carry_out import carry_out

    def tell(step: str) -> None:
        sys.stderr.write(f"{step}: done\n")

    carry_out(store, pipeline.layout, procedure, verify or partial(gate, pipeline), tell)


def _request(asked: Asked, store: Store, pipeline: Pipeline) -> Request:
    from tidemill.checkpoint.procedure.carry_out import Request
    from tidemill.checkpoint.procedure.journal import derived_request_id
    from tidemill.checkpoint.procedure.request import check_request_id

    arguments = {"arguments": list(asked.arguments)}
    derive = partial(derived_request_id, store, pipeline.layout, pipeline.name, asked.verb, arguments)
    request_id = check_request_id(asked.request_id) if asked.request_id else derive()
    reason = ["--reason", asked.why] if asked.why else []
    words = [*_beginning(asked), *reason, "--apply", "--request-id", request_id]
    return Request(asked.verb, pipeline.name, request_id, asked.person, asked.why, shlex.join(words))


def _beginning(asked: Asked) -> list[str]:
    """The command line again, without what only says how to go about it."""
    named = asked.invocation.environment_name
    environment = ["--env", named] if named else []
    return ["tidemill", *environment, "checkpoint", asked.verb, asked.pipeline, *asked.arguments]


def _check_approval(asked: Asked, pipeline: Pipeline) -> None:
    from tidemill.checkpoint.procedure.request import check_person

    asking = check_person(asking_person(asked.by))
    check_person(asked.person)
    if not asked.approved_by or asked.approved_by == asking:
        raise GateRefusedError(
            "TIDE-CKPT-036",
            "This environment is protected, and nobody else has approved. Nothing was changed.",
            facts={"environment": pipeline.environment.name, "by": asking, "approved_by": asked.approved_by},
            fix="let somebody else read the plan, and name them: --approved-by NAME",
            runbook="unfinished-procedure",
        )
