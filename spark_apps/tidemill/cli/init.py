"""`tidemill init`: create a project folder with a working pipeline."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli.output import say


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(init)


def init(folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")]) -> None:
    """Create a project folder with a working pipeline."""
    from tidemill.dev.new_project import FIRST_PIPELINE, make_project

    for file in make_project(folder):
        say(f"wrote {file}")
    say("")
    say("Next:")
    say(f"  cd {shlex.quote(str(folder))}")
    say("  tidemill validate")
    say(f"  tidemill run {FIRST_PIPELINE} --mode incremental")
    say(f"  tidemill ledger {FIRST_PIPELINE}")
