"""`tidemill watch`: the live result of a pipeline in the terminal, as a table and a plot."""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console

    from tidemill.cli.watch_frame import Watched
    from tidemill.ledger.table_query import Copied

# Cells of a line that the axis and its numbers take.
AXIS_CELLS = 14
MOST_POINTS = 100


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(watch)


def watch(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    table: Annotated[
        str | None, typer.Option(help="One of its tables, files:PATH or memory:NAME. Default: the first.")
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(
            help="Column of the x axis (time, number or key). Default: the event time, or else the first "
            "column of a suitable type."
        ),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            help="Numeric column whose mean is plotted. Default: the first numeric column, or else the "
            "number of rows."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, max=200, help="Maximum number of rows to show.")] = 10,
    every: Annotated[str, typer.Option(help="Time between two updates.")] = "2s",
    once: Annotated[bool, typer.Option("--once", help="Show the current result once and exit.")] = False,
) -> None:
    """Show a pipeline's newest rows and a plot of them."""
    from tidemill.cli.watch_frame import Watched
    from tidemill.control.memory_tables import memory_tables
    from tidemill.ledger.files_rows import folders_of
    from tidemill.ledger.newest_rows import FOLDER, IN_MEMORY, Wanted

    invocation = invocation_of(context)
    plane, resolved = invocation.control_plane(), invocation.pipeline(pipeline)
    screen, pause = console(), _duration(every)
    sinks = resolved.spec.sinks
    tables = [
        *(sink.table for sink in resolved.spec.delta_sinks),
        *(FOLDER + sink.files.path for sink in sinks if sink.files is not None),
        *(IN_MEMORY + sink.memory.name for sink in sinks if sink.memory is not None),
    ]
    if table is not None and table not in tables:
        raise typer.BadParameter(f"--table: {pipeline} writes {', '.join(tables) or 'no table'}")
    chosen = table or next(iter(tables), None)
    points = max(1, min(MOST_POINTS, screen.width - AXIS_CELLS))
    times = [stream.event_time.column for stream in resolved.spec.streams.values() if stream.event_time]
    wanted = Wanted(x, y, next(iter(times), None), rows, points)
    others: dict[str, Copied] = {
        **folders_of(resolved.layout, resolved.spec),
        **memory_tables(plane, [pipeline]),
    }
    watched = Watched(plane, pipeline, chosen, wanted, others)
    if once:
        watched.look()
        screen.print(watched.frame())
    else:
        # CTRL-C is the normal way to end this and not a failure.
        with contextlib.suppress(KeyboardInterrupt):
            (_live if sys.stdout.isatty() else _frame_by_frame)(screen, watched, pause.total_seconds())


def _live(screen: Console, watched: Watched, pause: float) -> None:
    """Update one frame in place."""
    from rich.live import Live

    watched.look()
    with Live(watched.frame(), console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            time.sleep(pause)
            watched.look()
            live.update(watched.frame(), refresh=True)


def _frame_by_frame(screen: Console, watched: Watched, pause: float) -> None:
    """Print frames below each other when something has changed, for a pipe or a file."""
    while True:
        if watched.look():
            screen.print(watched.frame())
            sys.stdout.flush()
        time.sleep(pause)


def _duration(text: str) -> timedelta:
    from tidemill.spec.units import parse_duration

    try:
        return max(parse_duration(text), timedelta(milliseconds=100))
    except ValueError as error:
        raise typer.BadParameter(f"--every: {error}") from error
