"""`tidemill queries | queries show | queries wait`: the streaming queries that drivers report."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console, print_json, say

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of the pipeline, or a prefix of the query's id.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    group.callback(invoke_without_command=True)(queries)
    group.command()(show)
    group.command()(wait)
    app.add_typer(group, name="queries")


def queries(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Include pipelines that are not running.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the running queries, show one, or wait for one."""
    if context.invoked_subcommand is not None:
        return
    from tidemill.cli.query_tables import document_of, queries_table
    from tidemill.control.queries import active_queries, query_of

    plane = invocation_of(context).control_plane()
    found = active_queries(plane)
    if every:
        running = {query.pipeline for query in found}
        others = sorted({*plane.environment.project.pipeline_names()} - running)
        found += [query_of(plane, name) for name in others]
    if as_json:
        print_json([document_of(query) for query in found])
    elif found:
        console().print(queries_table(found))
    else:
        owner = plane.foreign_owner()
        say("No query runs here. With --all, those that do not run are shown, too.")
        if owner is not None:
            say(f"The storage root is another control plane's: {owner}")


def show(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show sources, sinks, progress and plan of one query."""
    from tidemill.cli.query_tables import details, document_of
    from tidemill.control.queries import find_pipeline, query_of

    plane = invocation_of(context).control_plane()
    query = query_of(plane, find_pipeline(plane, name))
    if as_json:
        print_json(document_of(query, whole=True))
        return
    screen = console()
    for part in details(query):
        screen.print(part, markup=False, highlight=False)


def wait(
    context: typer.Context,
    name: Name,
    timeout: Annotated[
        str | None, typer.Option(help="Maximum time to wait, such as 5m. Default: no limit.")
    ] = None,
) -> None:
    """Wait until a query ends. The exit code is 1 if it failed or still runs."""
    from tidemill.control.queries import find_pipeline

    plane = invocation_of(context).control_plane()
    seconds = None if timeout is None else _duration(timeout).total_seconds()
    pipeline = find_pipeline(plane, name)
    if not _has_ended_well(plane, pipeline, seconds, timeout):
        raise typer.Exit(1)


def _has_ended_well(plane: ControlPlane, pipeline: str, seconds: float | None, timeout: str | None) -> bool:
    from tidemill.control.queries import wait_for_end

    driver = plane.running(pipeline)
    if driver is None:
        ending = plane.last_ending(pipeline)
        if ending is None:
            say(f"{pipeline}: it never ran here")
            return False
    else:
        sys.stderr.write(f"{driver.process}, run {driver.run_id}\n")
        ending = wait_for_end(plane, driver, seconds)
        if ending is None:
            say(f"{pipeline}: still runs after {timeout}")
            return False
    say(f"{pipeline}: {'ended well' if ending.is_finished else ending.cause} (run {ending.run_id})")
    return ending.is_finished


def _duration(text: str) -> timedelta:
    from tidemill.spec.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--timeout: {error}") from error
