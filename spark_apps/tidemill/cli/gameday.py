"""`tidemill gameday`: rehearse emergencies on a copy of a pipeline, and show the measurements."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.verb_command import AsJson, By
from tidemill.control.procedures.run import Asking

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
NameOrAll = Annotated[str, typer.Argument(help="Name of the pipeline. Default: all.")]
Drill = Annotated[
    list[str] | None,
    typer.Option("--drill", help="kill, drain, rewind, restore or backfill. May be repeated. Default: all."),
]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Rehearse emergencies on a copy.", no_args_is_help=True, rich_markup_mode=None)
    for verb in (run, show):
        group.command()(verb)
    app.add_typer(group, name="gameday")


def run(
    context: typer.Context, pipeline: Name, drill: Drill = None, by: By = "", as_json: AsJson = False
) -> None:
    """Copy a pipeline, run drills on the copy, and measure the recovery times.

    The live pipeline is only read. The copy runs on this machine and is deleted at the end.
    """
    from tidemill.control.game_day.play import play

    invocation = invocation_of(context)
    asking = Asking("fork", (), by, invocation.command, reason="game day")
    day = play(invocation.control_plane(), invocation.pipeline(pipeline), asking, drill or (), _tell)
    if as_json:
        print_json(asdict(day))
    else:
        cells = [(r.drill, r.outcome, f"{r.seconds:.1f}", r.told.partition("\n")[0]) for r in day.results]
        print_table(("DRILL", "OUTCOME", "SECONDS", "TOLD"), cells)
    if day.failed:
        raise typer.Exit(1)


def show(context: typer.Context, pipeline: NameOrAll = "", as_json: AsJson = False) -> None:
    """Show the measurements of game days, newest first."""
    from tidemill.control.game_day.results import newest

    rows = newest(invocation_of(context).environment().layout, pipeline)
    if as_json:
        print_json(rows)
    elif rows:
        headings = ("at", "pipeline", "drill", "outcome", "seconds", "by")
        print_table(headings, [tuple(row[name] for name in headings) for row in rows])
    else:
        say("no game day was played yet")


def _tell(step: str) -> None:
    sys.stderr.write(f"{step}\n")
