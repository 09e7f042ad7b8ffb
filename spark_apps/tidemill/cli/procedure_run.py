"""The common procedure of operations that change something: print the plan, and with --apply carry it out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import VerbCall
from tidemill.control.procedures.run import Hearers, Planned, act, next_words, plan_verb
from tidemill.errors import UsageError

if TYPE_CHECKING:
    from tidemill.control.procedures.parts import VerbParts
    from tidemill.spec.project import Pipeline


def run_procedure(call: VerbCall, parts: VerbParts) -> None:
    """Plan, print, and with `--apply` carry out an operation.

    Raises:
        GateRefusedError: TIDE-CKPT-033 if another request is unfinished, TIDE-CKPT-035 if a driver runs,
            TIDE-CKPT-036 without the approval that a protected environment needs.
    """
    planned = plan_verb(call.asking, parts, call.pipeline)
    if not call.as_json:
        for line in planned.lines:
            say(line)
    acts = call.apply and planned.has_work
    if acts:
        with call.bars as bars:
            act(call.invocation.control_plane(), call.asking, planned, Hearers(_tell, bars.tell))
    request_id = planned.request.request_id
    if call.as_json:
        print_json({"request_id": request_id, "applied": acts, "plan": planned.plan})
    elif acts:
        say(f"Done. Request: {request_id}")
        say_next(call, parts.pipeline, parts.then)
    elif call.apply:
        say("Nothing was done.")
    else:
        _say_how(call, planned)


def _say_how(call: VerbCall, planned: Planned) -> None:
    """Print the command that carries out the plan, or the reason why it would be refused."""
    try:
        planned.check_consent()
    except UsageError as refusal:
        say(f"Nothing was done. It would be refused as it is: {refusal.error_id} {refusal.problem}")
        say(f"Fix: {refusal.fix}")
    else:
        acting = call.command_that_acts(planned.parts.pipeline.environment)
        say(f"Nothing was done. To carry it out: {acting}")


def say_next(call: VerbCall, pipeline: Pipeline, then: tuple[str, ...] = ()) -> None:
    """Print the next command."""
    words = next_words(call.invocation.control_plane(), pipeline, then)
    say(f"Next: {call.invocation.command(*words)}")


def _tell(step: str) -> None:
    sys.stderr.write(f"{step}: done\n")
