"""`tidemill run`: one driver or a chain of drivers, in the foreground."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemill.cli.backfill import FromOffsets, FromTime, ToOffsets, ToTime, run_backfill
from tidemill.cli.invocation import invocation_of
from tidemill.cli.verb_command import ApprovedBy

if TYPE_CHECKING:
    from tidemill.cli.invocation import Invocation


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(run)


def run(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Argument(help="Name of the pipeline.")] = None,
    mode: Annotated[
        Literal["stream", "incremental", "backfill"] | None,
        typer.Option(help="Mode of the run. Default: the mode in the pipeline file."),
    ] = None,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry out a backfill. Without this option, only plan it.")
    ] = False,
    approved_by: ApprovedBy = "",
    with_upstream: Annotated[
        bool,
        typer.Option(
            "--with-upstream",
            help="First run each incremental pipeline that feeds this one, in dependency order.",
        ),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Run all incremental pipelines once, in dependency order.")
    ] = False,
) -> None:
    """Run a pipeline, or a chain of incremental pipelines once each, in the foreground.

    The exit code is the driver's: 64 to 66 if an operator must act, 69 if a retry can help, 70 after a crash.
    It is 1 if the run was stopped before its end.

    In a chain, pipelines that depend on a failed one are skipped, other branches continue, and streams are
    not run.
    """
    from tidemill.cli.foreground import run_in_foreground
    from tidemill.control.ask.run_id import new_run_id
    from tidemill.control.driver_command import DriverRun

    invocation = invocation_of(context)
    ranges = (start, end, start_offsets, end_offsets)
    if with_upstream or every:
        if mode is not None or apply or any(value is not None for value in ranges):
            raise typer.BadParameter("--with-upstream and --all run pipelines as their files say")
        _run_chain(invocation, pipeline, every=every)
        return
    if pipeline is None:
        raise typer.BadParameter("name a pipeline, or run all incremental ones with --all")
    chosen = mode or invocation.pipeline(pipeline).spec.run.mode
    if chosen == "backfill":
        run_backfill(invocation, pipeline, ranges, apply=apply, approved_by=approved_by, shows_log=True)
        return
    if apply or any(value is not None for value in ranges):
        raise typer.BadParameter(
            "--from, --to, --from-offsets, --to-offsets and --apply are for --mode backfill"
        )
    run_id = new_run_id(chosen, datetime.now(UTC))
    attended = DriverRun(pipeline, chosen, run_id, ("--attended",))
    if exit_code := run_in_foreground(invocation.control_plane(), attended):
        raise typer.Exit(exit_code)


def _run_chain(invocation: Invocation, last: str | None, *, every: bool) -> None:
    from tidemill.cli.chain import run_chain
    from tidemill.control.chain import chain_of

    if (last is None) != every:
        raise typer.BadParameter("name one pipeline and --with-upstream, or all of them with --all")
    project = invocation.project()
    if last is not None and project.load_pipeline(last).run.mode != "incremental":
        raise typer.BadParameter(f"{last} is a stream: it reads by itself what others write")
    chain = chain_of({name: project.load_pipeline(name) for name in project.pipeline_names()}, last)
    if not run_chain(invocation.control_plane(), chain):
        raise typer.Exit(1)
