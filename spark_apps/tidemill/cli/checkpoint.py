"""`tidemill checkpoint …`: commands that inspect and change the state of a pipeline."""

from __future__ import annotations

import typer

from tidemill.cli import (
    checkpoint_backup,
    checkpoint_doctor,
    checkpoint_gate,
    checkpoint_hold,
    checkpoint_inspect,
    checkpoint_release,
    checkpoint_verbs,
)

# In the order of the help: inspect, protect, change.
_VERBS = (
    checkpoint_inspect,
    checkpoint_gate,
    checkpoint_doctor,
    checkpoint_backup,
    checkpoint_hold,
    checkpoint_release,
    checkpoint_verbs,
)


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Inspect checkpoints and change them safely.", no_args_is_help=True, rich_markup_mode=None
    )
    for verb in _VERBS:
        verb.add_to(group)
    app.add_typer(group, name="checkpoint")
