"""`tidemill checkpoint hold`: forbid starts until somebody releases the hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tidemill.cli.output import say
from tidemill.cli.procedure_run import command_that_acts
from tidemill.cli.verb_command import VerbCall, asking_person, verb_command

HoldId = Annotated[str, typer.Option("--id", help="Name of the hold.")]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    text = "Forbid starting a pipeline; a running driver goes on."
    verb_command(group, text, ("reason", "by"), reason=...)(hold)


def hold(call: VerbCall, hold_id: HoldId = "by-hand") -> None:
    """Take a hold; whoever is refused reads the reason."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import hold_by_hand
    from tidemill.storage.store import Store

    resolved, pipeline = call.resolved(), call.pipeline
    call.invocation.control_plane().own()
    release = command_that_acts(replace(call, verb="release", arguments=(hold_id,)), resolved.environment)
    wanted = Hold(id=hold_id, by=asking_person(call.by), why=call.reason, to_do=release)
    taken = hold_by_hand(Store(resolved.layout.root), resolved.layout, pipeline, wanted)
    say(f"{pipeline} is held: {hold_id}" if taken else f"{pipeline} was held by {hold_id} before")
    say(f"Next, once its reason is gone: {release}")
