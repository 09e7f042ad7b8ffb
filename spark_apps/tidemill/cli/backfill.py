"""`tidemill backfill plan | apply | status | verify | publish | abort | stop`: reprocess a range."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemill.cli.backfill_downstream import downstream
from tidemill.cli.backfill_publish import abort, publish, tell_staged
from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.verb_command import ApprovedBy

if TYPE_CHECKING:
    from tidemill.backfill.bounds import Bounds
    from tidemill.backfill.manner import Manner
    from tidemill.backfill.plan import BackfillPlan
    from tidemill.control.backfill_outlook import Outlook

Ranges = tuple[str | None, str | None, str | None, str | None]

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
FromTime = Annotated[
    str | None, typer.Option("--from", help="Start of event time, ISO 8601, in UTC without an offset.")
]
ToTime = Annotated[str | None, typer.Option("--to", help="End of event time, exclusive.")]
FromOffsets = Annotated[
    str | None, typer.Option("--from-offsets", help='First offsets, e.g. {"topic": {"0": 5}}.')
]
ToOffsets = Annotated[str | None, typer.Option("--to-offsets", help="End offsets, exclusive.")]
ChunkSize = Annotated[
    str | None,
    typer.Option(
        "--chunk",
        help="Size of the chunks that are committed separately: event time, e.g. '1 day', or records, e.g. "
        "1000000.",
    ),
]
PublishWhen = Annotated[
    Literal["now", "later"],
    typer.Option(
        "--publish",
        help="now: rows are written to the tables chunk by chunk. later: rows are staged until "
        "`backfill publish` writes all of them to each table in one commit.",
    ),
]
Digest = Annotated[
    str | None,
    typer.Option("--plan", help="Digest of a plan. Only this plan is used."),
]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Reprocess a range of the past.", no_args_is_help=True, rich_markup_mode=None)
    for verb in (plan, apply, status, verify, publish, abort, downstream, stop):
        group.command()(verb)
    app.add_typer(group, name="backfill")


def plan(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    chunk: ChunkSize = None,
    publish: PublishWhen = "now",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a backfill would read and replace, without changing data."""
    invocation = invocation_of(context)
    bounds = _bounds((start, end, start_offsets, end_offsets))
    made = _plan(invocation, pipeline, bounds, _manner(chunk, publish))
    if as_json:
        print_json(_outlook(invocation, made).as_document())
    else:
        _print(invocation, made)
        say(f"To carry out exactly this: tidemill backfill apply {pipeline} --plan {made.digest}")


def apply(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    digest: Digest = None,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    chunk: ChunkSize = None,
    publish: PublishWhen = "now",
    anew: Annotated[
        bool, typer.Option("--anew", help="Also repeat chunks that a previous driver has finished.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Show the driver's log instead of the progress.")
    ] = False,
    approved_by: ApprovedBy = "",
) -> None:
    """Carry out a backfill in the foreground. Running it again changes no row.

    If the backfill is already running, for example after its terminal was closed, wait for its end. With
    --plan, a stopped or killed backfill continues with the remaining chunks. A range is planned again first.
    """
    ranges = (start, end, start_offsets, end_offsets)
    _check_one(digest, (*ranges, chunk, None if publish == "now" else publish))
    invocation = invocation_of(context)
    if digest is not None:
        _carry_out(invocation, pipeline, digest, approved_by, anew=anew, shows_log=log)
        return
    run_backfill(
        invocation,
        pipeline,
        ranges,
        apply=True,
        approved_by=approved_by,
        manner=_manner(chunk, publish),
        anew=anew,
        shows_log=log,
    )


def status(
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Argument(help="Name of the pipeline. Default: all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Include plans that were not carried out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List backfills, newest first, with their progress and remaining time."""
    from tidemill.control.backfills import list_backfills

    invocation = invocation_of(context)
    if pipeline is not None:
        invocation.pipeline(pipeline)
    found = [
        each
        for each in list_backfills(invocation.control_plane(), pipeline)
        if every or each.progress is not None
    ]
    if as_json:
        print_json([each.as_document() for each in found])
    elif found:
        print_table(
            ("PIPELINE", "PLAN", "RANGE", "STATE", "CHUNKS", "ROWS", "BEGUN", "LEFT"),
            [each.cells() for each in found],
        )
    else:
        say("No backfill was carried out. With --all, plans are shown, too.")


def verify(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    digest: Digest = None,
    start: FromTime = None,
    end: ToTime = None,
    start_offsets: FromOffsets = None,
    end_offsets: ToOffsets = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute a range and compare it with the tables, without changing data. Exit code 1 if they differ."""
    from tidemill.control.verify_range import verify_range

    invocation = invocation_of(context)
    plan = _chosen(invocation, pipeline, digest, (start, end, start_offsets, end_offsets))
    if not as_json:
        say(f"Range of {pipeline}, plan {plan.digest}: {plan.bounds.text()}")
        say("  Spark computes it once more, which takes as long as a backfill.")
    found = verify_range(invocation.control_plane(), invocation.pipeline(pipeline), plan)
    if as_json:
        print_json([difference.model_dump(mode="json") for difference in found])
    else:
        for difference in found:
            for line in difference.lines():
                say(line)
    if not all(difference.is_none for difference in found):
        if not as_json:
            say(f"To write it again: tidemill backfill apply {pipeline} --plan {plan.digest}")
        raise typer.Exit(1)


def stop(
    context: typer.Context,
    pipeline: Name,
    reason: Annotated[str, typer.Option(help="Reason, recorded with the request.")] = "",
) -> None:
    """Stop a backfill. Committed chunks stay, and `apply --plan` continues with the others."""
    from tidemill.control.ask.bounded_run import stop_backfill

    driver = stop_backfill(invocation_of(context).control_plane(), pipeline, getpass.getuser(), reason)
    if driver is None:
        say(f"{pipeline}: no backfill is at work")
    else:
        say(f"{pipeline}: {driver.process} was asked to stop; run {driver.run_id}, log {driver.log}")


def run_backfill(  # noqa: PLR0913  # what was asked for on two command lines
    invocation: Invocation,
    name: str,
    ranges: Ranges,
    *,
    apply: bool,
    approved_by: str = "",
    manner: Manner | None = None,
    anew: bool = False,
    shows_log: bool = False,
) -> None:
    """Print the plan of a backfill and, with `apply`, carry it out."""
    bounds = _bounds(ranges)
    under_way = _under_way(invocation, name, bounds) if apply else None
    if under_way is not None:
        _carry_out(invocation, name, under_way, approved_by, shows_log=shows_log)
        return
    made = _plan(invocation, name, bounds, manner)
    _print(invocation, made)
    if apply:
        _carry_out(invocation, name, made.digest, approved_by, anew=anew, shows_log=shows_log)
    else:
        say("Nothing was done. With --apply it is carried out.")


def _check_one(digest: str | None, ranges: tuple[str | None, ...]) -> None:
    if digest is not None and any(value is not None for value in ranges):
        raise typer.BadParameter("a plan has its range: give --plan, or a range, not both")


def _chosen(invocation: Invocation, name: str, digest: str | None, ranges: Ranges) -> BackfillPlan:
    """Return the named plan, or a new plan of a range."""
    from tidemill.backfill.plan import load_plan

    _check_one(digest, ranges)
    if digest is None:
        return _plan(invocation, name, _bounds(ranges))
    plane = invocation.control_plane()
    return load_plan(plane.store, plane.layout, name, digest)


def _bounds(ranges: Ranges) -> Bounds:
    from tidemill.backfill.bounds import parse_bounds

    return parse_bounds(*ranges)


def _manner(chunk: str | None, publish: Literal["now", "later"]) -> Manner:
    from tidemill.backfill.chunks import parse_chunk
    from tidemill.backfill.manner import Manner

    return Manner(parse_chunk(chunk), publish)


def _plan(invocation: Invocation, name: str, bounds: Bounds, manner: Manner | None = None) -> BackfillPlan:
    from tidemill.backfill.manner import AT_ONCE
    from tidemill.backfill.planning import plan_backfill
    from tidemill.control.spark_part import analysing

    pipeline, plane = invocation.pipeline(name), invocation.control_plane()
    return plan_backfill(plane.store, pipeline, bounds, analysing(plane, pipeline), manner or AT_ONCE)


def _under_way(invocation: Invocation, name: str, bounds: Bounds) -> str | None:
    """Return the digest of the plan that is running now, if it has the same range."""
    from tidemill.backfill.plan import load_plan
    from tidemill.control.ask.bounded_run import plan_of

    plane = invocation.control_plane()
    running = plane.running(name, "backfill")
    digest = None if running is None else plan_of(running.run_id)
    if digest is None:
        return None
    return digest if load_plan(plane.store, plane.layout, name, digest).bounds == bounds else None


def _carry_out(  # noqa: PLR0913  # what was asked for on three command lines
    invocation: Invocation,
    name: str,
    digest: str,
    approved_by: str,
    *,
    anew: bool = False,
    shows_log: bool = False,
) -> None:
    from tidemill.backfill.plan import load_plan
    from tidemill.backfill.progress import forget_progress
    from tidemill.cli.backfill_bar import chunks_shown
    from tidemill.cli.foreground import run_in_foreground
    from tidemill.control.ask.bounded_run import backfill_run
    from tidemill.control.backfill_consent import allow_backfill
    from tidemill.control.procedures.run import Asking

    plane = invocation.control_plane()
    # Reports a wrong digest before a driver starts.
    plan = load_plan(plane.store, plane.layout, name, digest)
    asking = Asking("apply", (), "", invocation.command, approved_by, group="backfill")
    allow_backfill(plane, asking, name, digest, datetime.now(UTC))
    if anew and plane.running(name, "backfill") is None:
        forget_progress(plane.store, plane.layout, name, digest)
    shown = None if shows_log else chunks_shown(plane, plan)
    if exit_code := run_in_foreground(plane, backfill_run(name, digest), shown):
        say(f"To go on with what is left: tidemill backfill apply {name} --plan {digest}")
        raise typer.Exit(exit_code)
    tell_staged(plane, plan)


def _outlook(invocation: Invocation, made: BackfillPlan) -> Outlook:
    from tidemill.control.backfill_outlook import outlook_of

    return outlook_of(invocation.control_plane(), invocation.pipeline(made.pipeline), made)


def _print(invocation: Invocation, made: BackfillPlan) -> None:
    for line in _outlook(invocation, made).lines():
        say(line)
