"""`tidemill`: the entry point, the global options, and the conversion of errors to exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer

from tidemill import __version__
from tidemill.cli import (
    backfill,
    checkpoint,
    control,
    dev,
    explain,
    gameday,
    graph,
    init,
    ledger,
    lineage,
    metrics,
    plan,
    quarantine,
    queries,
    query,
    run,
    schema,
    source,
    status,
    stream_verbs,
    table,
    upgrade,
    validate,
    watch,
)
from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.errors import InternalError, SpecError, TidemillError, UsageError

# Maximum characters of an unexpected error's text. Enough to recognize the error, without a Java stack trace.
SHOWN_CHARACTERS = 600

# Plain help, because importing rich would take longer than everything else.
app = typer.Typer(
    name="tidemill",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verbs in (init, validate, plan, run, status, explain, stream_verbs, watch, ledger, query, graph):
    verbs.add_to(app)
for group in (
    queries,
    backfill,
    checkpoint,
    upgrade,
    table,
    source,
    quarantine,
    schema,
    lineage,
    metrics,
    control,
    gameday,
    dev,
):
    group.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tidemill {__version__}\n")
        raise typer.Exit


@app.callback()
def global_options(
    context: typer.Context,
    env: Annotated[
        str | None,
        typer.Option(help="Name in conf/environments/, or a file. Default: TIDEMILL_ENV or local."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help="Project folder. Default: TIDEMILL_PROJECT, or the nearest project at or above this folder."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces of errors.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run PySpark pipelines as streams, incremental runs and backfills from one declaration."""
    invocation = invocation_of(context)
    invocation.environment_name = env
    invocation.project_folder = project
    invocation.debug = debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    0 means success, 1 refusal or failure, 2 wrong usage or an invalid file. `run` and `backfill apply` return
    the exit code of their driver.
    """
    invocation = Invocation()
    try:
        _command()(arguments, prog_name="tidemill", obj=invocation)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TidemillError as error:
        return _tell(error, invocation)
    except Exception as error:  # noqa: BLE001  # the entry point maps every error to an exit code and a text
        text = " ".join(str(error).split())[:SHOWN_CHARACTERS]
        unforeseen = InternalError(
            "TIDE-CLI-001",
            "Tidemill met an error that it did not foresee.",
            facts={"error": f"{type(error).__name__}: {text}"},
            fix="if the text does not explain it, report it with the trace that --debug shows",
        )
        unforeseen.__cause__ = error
        return _tell(unforeseen, invocation)
    return 0


@cache
def _command() -> Callable[..., object]:
    """Return the command tree, built once, because calling `app` would build it for each command line."""
    return typer.main.get_command(app)


def exit_status(error: TidemillError) -> int:
    """Return 2 for wrong usage or an invalid file, 1 for all other errors."""
    return 2 if isinstance(error, SpecError | UsageError) else 1


def _tell(error: TidemillError, invocation: Invocation) -> int:
    if invocation.debug:
        traceback.print_exception(error)
    sys.stderr.write(f"{invocation.completed(str(error))}\n")
    return exit_status(error)


if __name__ == "__main__":
    sys.exit(main())
