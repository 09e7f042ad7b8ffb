"""`tidemill checkpoint release`: release a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.procedure_run import say_next
from tidemill.cli.verb_command import VerbCall, verb_command
from tidemill.control.procedures import by_hand

if TYPE_CHECKING:
    from tidemill.checkpoint.holds import Hold

HoldId = Annotated[
    str | None, typer.Argument(metavar="HOLD", help="Id of the hold. Default: show all holds.")
]
Force = Annotated[bool, typer.Option("--force", help="Abandon the unfinished verb that placed the hold.")]


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    options = ("apply", "reason", "by", "approved_by", "as_json")
    verb_command(group, options)(release)


def release(call: VerbCall, hold_id: HoldId = None, force: Force = False) -> None:
    """Release a hold, or show all."""
    from tidemill.checkpoint.verbs.release import check_releasable, releasable
    from tidemill.storage.store import Store

    resolved, pipeline = call.resolved(), call.pipeline
    store, layout = Store(resolved.layout.root), resolved.layout
    if hold_id is None:
        found = releasable(store, layout, pipeline)
    elif call.apply:
        plane = call.invocation.control_plane()
        found = [by_hand.release(plane, call.asking, resolved, hold_id, force=force)]
    else:
        found = [check_releasable(store, layout, pipeline, hold_id, force=force)]
    if call.as_json:
        print_json([one.model_dump(mode="json") for one in found])
        return
    if found:
        print_table(("hold", "by", "since (UTC)", "why", "verb", "to do"), (_row(one) for one in found))
    if hold_id is None:
        say("Nothing was done. To release one, name it." if found else f"{pipeline} is not held.")
    elif call.apply:
        say("Released.")
        say_next(call, resolved)
    else:
        say(f"Nothing was done. To carry it out: {call.command_that_acts(resolved.environment)}")


def _row(hold: Hold) -> tuple[object, ...]:
    verb = "" if hold.alive is None else hold.alive.told()
    return hold.id, hold.by, hold.at, hold.why, verb, hold.to_do
