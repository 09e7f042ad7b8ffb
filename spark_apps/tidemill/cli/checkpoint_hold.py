"""`tidemill checkpoint hold`: forbid starts until an operator releases the hold."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli.output import say
from tidemill.cli.verb_command import VerbCall, verb_command
from tidemill.control.procedures import by_hand

HoldId = Annotated[str, typer.Option("--id", help="Name of the hold.")]


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    verb_command(group, ("reason", "by"), reason=...)(hold)


def hold(call: VerbCall, hold_id: HoldId = "by-hand") -> None:
    """Place a hold. Refused starts show its reason."""
    resolved, pipeline = call.resolved(), call.pipeline
    held, taken = by_hand.hold(call.invocation.control_plane(), call.asking, resolved, hold_id)
    say(f"{pipeline} is held: {hold_id}" if taken else f"{pipeline} was held by {hold_id} before")
    say(f"Next, once its reason is gone: {held.to_do}")
