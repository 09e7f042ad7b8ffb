"""`tidemill checkpoint release`: end a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.procedure_run import check_allowed, command_that_acts, say_next
from tidemill.cli.verb_command import VerbCall, verb_command

if TYPE_CHECKING:
    from tidemill.checkpoint.holds import Hold

HoldId = Annotated[str | None, typer.Argument(help="Id of the hold; without one, all are shown.")]
Force = Annotated[bool, typer.Option("--force", help="Give up the unfinished verb behind it.")]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    options = ("apply", "reason", "by", "approved_by", "as_json")
    verb_command(group, "Release a hold, so that the pipeline may start.", options)(release)


def release(call: VerbCall, hold: HoldId = None, force: Force = False) -> None:
    """Release a hold, or show all."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import check_releasable, releasable
    from tidemill.checkpoint.verbs.release import release as let_go
    from tidemill.storage.store import Store

    resolved, pipeline = call.resolved(), call.pipeline
    store, layout = Store(resolved.layout.root), resolved.layout
    if hold is None:
        found = releasable(store, layout, pipeline)
    elif call.apply:
        check_allowed(call, resolved, forbids_starts=False)
        found = [let_go(store, layout, pipeline, Hold(id=hold, by=call.person, why=call.reason), force=force)]
    else:
        found = [check_releasable(store, layout, pipeline, hold, force=force)]
    if call.as_json:
        print_json([one.model_dump(mode="json") for one in found])
        return
    if found:
        print_table(("hold", "by", "since (UTC)", "why", "verb", "to do"), (_row(one) for one in found))
    if hold is None:
        say("Nothing was done. To release one, name it." if found else f"{pipeline} is not held.")
    elif call.apply:
        say("Released.")
        say_next(call, resolved)
    else:
        say(f"Nothing was done. To carry it out: {command_that_acts(call, resolved.environment)}")


def _row(hold: Hold) -> tuple[object, ...]:
    verb = "" if hold.alive is None else hold.alive.told()
    return hold.id, hold.by, hold.at, hold.why, verb, hold.to_do
