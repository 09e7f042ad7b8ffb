"""`tidemill run`: one driver, watched from here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from tidemill.cli.backfill import FromOffsets, FromTime, ToOffsets, ToTime, run_backfill
from tidemill.cli.invocation import invocation_of


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(run)


def run(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    mode: Annotated[
        Literal["stream", "incremental", "backfill"] | None,
        typer.Option(help="How to run. Default: as the pipeline file says."),
    ] = None,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry a backfill out; without it, only plan.")
    ] = False,
) -> None:
    """Run a pipeline here, in the foreground."""
    from tidemill.cli.foreground import run_in_foreground
    from tidemill.control.driver_command import DriverRun
    from tidemill.control.run_id import new_run_id

    invocation = invocation_of(context)
    ranges = (start, end, start_offsets, end_offsets)
    chosen = mode or invocation.pipeline(pipeline).spec.run.mode
    if chosen == "backfill":
        run_backfill(invocation, pipeline, ranges, apply=apply)
        return
    if apply or any(value is not None for value in ranges):
        raise typer.BadParameter(
            "--from, --to, --from-offsets, --to-offsets and --apply are for --mode backfill"
        )
    run_id = new_run_id(chosen, datetime.now(UTC))
    if not run_in_foreground(invocation.control_plane(), DriverRun(pipeline, chosen, run_id)):
        raise typer.Exit(1)
