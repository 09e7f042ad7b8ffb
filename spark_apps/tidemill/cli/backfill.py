"""`tidemill backfill plan | apply`: process a range of the past again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, say

if TYPE_CHECKING:
    from tidemill.backfill.plan import BackfillPlan
    from tidemill.spec.project import Pipeline

Ranges = tuple[str | None, str | None, str | None, str | None]

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
FromTime = Annotated[
    str | None, typer.Option("--from", help="First moment of event time, ISO 8601; UTC without an offset.")
]
ToTime = Annotated[str | None, typer.Option("--to", help="End of event time, exclusive.")]
FromOffsets = Annotated[
    str | None, typer.Option("--from-offsets", help='First offsets, e.g. {"topic": {"0": 5}}.')
]
ToOffsets = Annotated[str | None, typer.Option("--to-offsets", help="End offsets, exclusive.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Process a range of the past again.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command()(plan)
    group.command()(apply)
    app.add_typer(group, name="backfill")


def plan(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a backfill would read and replace; changes nothing."""
    resolved = invocation_of(context).pipeline(pipeline)
    made = _plan(resolved, (start, end, start_offsets, end_offsets))
    if as_json:
        print_json(made.as_document())
    else:
        _print(made)


def apply(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
) -> None:
    """Carry a backfill out, in the foreground; running it again changes no row."""
    run_backfill(invocation_of(context), pipeline, (start, end, start_offsets, end_offsets), apply=True)


def run_backfill(invocation: Invocation, name: str, ranges: Ranges, *, apply: bool) -> None:
    """Print the plan of a backfill, and carry it out if asked to."""
    from tidemill.cli.foreground import run_in_foreground

    made = _plan(invocation.pipeline(name), ranges)
    _print(made)
    if not apply:
        say("Nothing was done. With --apply it is carried out.")
    elif not run_in_foreground(invocation.control_plane(), name, "backfill", made.bounds.arguments()):
        raise typer.Exit(1)


def _plan(pipeline: Pipeline, ranges: Ranges) -> BackfillPlan:
    from tidemill.backfill.bounds import parse_bounds
    from tidemill.backfill.plan import plan_backfill

    return plan_backfill(pipeline, parse_bounds(*ranges))


def _print(made: BackfillPlan) -> None:
    for line in made.lines():
        say(line)
