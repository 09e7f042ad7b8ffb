"""`tidemill checkpoint hold`: forbid starts until somebody releases the hold."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import say
from tidemill.cli.procedure_run import By, Name, asking_person


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(hold)


def hold(
    context: typer.Context,
    pipeline: Name,
    reason: Annotated[str, typer.Option(help="Why; whoever is refused reads it.")],
    by: By = "",
    hold_id: Annotated[str, typer.Option("--id", help="Name of the hold.")] = "by-hand",
) -> None:
    """Forbid starting a pipeline; a running driver goes on."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import hold_by_hand
    from tidemill.storage.store import Store

    resolved = invocation_of(context).pipeline(pipeline)
    wanted = Hold(id=hold_id, by=asking_person(by), why=reason)
    taken = hold_by_hand(Store(resolved.layout.root), resolved.layout, pipeline, wanted)
    say(f"{pipeline} is held: {hold_id}" if taken else f"{pipeline} was held by {hold_id} before")
