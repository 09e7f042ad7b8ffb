"""What all verbs that change something do alike: print the plan, and with --apply carry it out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import VerbCall, VerbParts, asking_person
from tidemill.errors import GateRefusedError

if TYPE_CHECKING:
    from tidemill.checkpoint.procedure.carry_out import Request
    from tidemill.control.runtime import Slot
    from tidemill.spec.project import Environment, Pipeline
    from tidemill.storage.store import Store


def run_procedure(call: VerbCall, parts: VerbParts) -> None:
    """Plan, print, and carry out if asked to.

    Raises:
        GateRefusedError: TIDE-CKPT-033 if another request is unfinished, TIDE-CKPT-035 if a driver runs,
            TIDE-CKPT-036 without the approval that a protected environment needs.
    """
    from tidemill.checkpoint.procedure.carry_out import plan_of
    from tidemill.checkpoint.procedure.unfinished import check_nothing_else_unfinished
    from tidemill.storage.store import Store

    pipeline = parts.pipeline
    store = Store(pipeline.layout.root)
    request = _request(call, store, pipeline)
    check_nothing_else_unfinished(store, pipeline.layout, pipeline.name, request.request_id)
    plan = plan_of(store, pipeline.layout, request, parts.make_plan)
    if not call.as_json:
        for line in parts.lines(plan):
            say(line)
    acts = call.apply and parts.has_work(plan)
    if acts:
        check_allowed(call, pipeline, parts.forbids_starts)
        _carry_out(store, parts, request, plan)
    if call.as_json:
        print_json({"request_id": request.request_id, "applied": acts, "plan": plan})
    elif acts:
        say(f"Done. Request: {request.request_id}")
        say_next(call, pipeline, parts.then)
    elif call.apply:
        say("Nothing was done.")
    else:
        say(f"Nothing was done. To carry it out: {command_that_acts(call, pipeline.environment)}")


def command_that_acts(call: VerbCall, environment: Environment) -> str:
    """All that must be typed, with places for the reason and, in a protected environment, the approval."""
    approval = ["--approved-by", "NAME"] if environment.spec.protected else []
    return call.command("--reason", "TEXT", "--apply", *approval)


def check_allowed(call: VerbCall, pipeline: Pipeline, forbids_starts: bool) -> None:
    """Let a verb act.

    Raises:
        GateRefusedError: TIDE-CKPT-035, TIDE-CKPT-036; TIDE-CTRL-010, if the storage root is another control
            plane's.
    """
    if pipeline.environment.spec.protected:
        check_approval(call, pipeline.environment)
    plane = call.invocation.control_plane()
    plane.own()
    slots: tuple[Slot, ...] = ("main", "backfill") if forbids_starts else ()
    driver = next(filter(None, (plane.running(pipeline.name, slot) for slot in slots)), None)
    if driver is not None:
        raise GateRefusedError(
            "TIDE-CKPT-035",
            "A driver of this pipeline runs. Nothing was changed.",
            facts={"pipeline": pipeline.name, "run": driver.run_id, "process": driver.process},
            fix=f"stop it, and start it again afterwards: {call.invocation.command('stop', pipeline.name)}"
            if driver.mode != "backfill"
            else "wait for the end of the backfill",
            runbook="unfinished-procedure",
        )


def _carry_out(store: Store, parts: VerbParts, request: Request, plan: Mapping[str, Any]) -> None:
    from tidemill.checkpoint.procedure.carry_out import carry_out, procedure_of

    def tell(step: str) -> None:
        sys.stderr.write(f"{step}: done\n")

    steps = parts.steps(request, plan)
    procedure = procedure_of(request, plan, steps, forbids_starts=parts.forbids_starts)
    verify = partial(_ask_gate, store, parts.pipeline) if parts.forbids_starts else lambda: None
    carry_out(store, parts.pipeline.layout, procedure, verify, tell)


def _ask_gate(store: Store, pipeline: Pipeline) -> None:
    """The gate, as a driver asks it before a start, apart from holds.

    Raises:
        GateRefusedError: Why no driver may start from the live generation.
    """
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.gate import check, gather_facts

    current = read_current(store, pipeline.layout, pipeline.name)
    if current is not None:
        check(gather_facts(store, pipeline, current.generation))


def say_next(call: VerbCall, pipeline: Pipeline, then: tuple[str, ...] = ()) -> None:
    """Tell what a person types next: `then`, or the start, unless a hold forbids it or a driver runs."""
    from tidemill.checkpoint.holds import read_holds
    from tidemill.storage.store import Store

    name = pipeline.name
    if then:
        words = (*then, name)
    elif read_holds(Store(pipeline.layout.root), pipeline.layout, name):
        words = ("checkpoint", "release", name)
    elif call.invocation.control_plane().running(name) is not None:
        words = ("status", name)
    elif pipeline.spec.run.mode == "stream":
        words = ("start", name)
    else:
        words = ("run", name, "--mode", "incremental")
    say(f"Next: {call.invocation.command(*words)}")


def _request(call: VerbCall, store: Store, pipeline: Pipeline) -> Request:
    from tidemill.checkpoint.procedure.carry_out import Request
    from tidemill.checkpoint.procedure.journal import derived_request_id
    from tidemill.checkpoint.procedure.request import check_request_id

    arguments = {"arguments": list(call.arguments)}
    derive = partial(derived_request_id, store, pipeline.layout, pipeline.name, call.verb, arguments)
    request_id = check_request_id(call.request_id) if call.request_id else derive()
    given = {"--reason": call.reason, "--by": call.by, "--approved-by": call.approved_by}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    command = call.command(*words, "--apply", "--request-id", request_id)
    return Request(call.verb, pipeline.name, request_id, call.person, call.reason, command)


def check_approval(call: VerbCall, environment: Environment) -> None:
    """See that somebody else has approved.

    Raises:
        GateRefusedError: TIDE-CKPT-036.
    """
    from tidemill.checkpoint.procedure.request import check_person

    asking = check_person(asking_person(call.by))
    check_person(call.person)
    if not call.approved_by or call.approved_by == asking:
        raise GateRefusedError(
            "TIDE-CKPT-036",
            "This environment is protected, and nobody else has approved. Nothing was changed.",
            facts={"environment": environment.name, "by": asking, "approved_by": call.approved_by},
            fix="let somebody else read the plan, and name them: --approved-by NAME",
            runbook="unfinished-procedure",
        )
