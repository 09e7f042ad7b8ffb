"""`tidemill backfill downstream`: reprocess stale downstream tables of a backfill in dependency order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.backfill_publish import Digest, Name, plan_of_digest
from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import ApprovedBy

if TYPE_CHECKING:
    from tidemill.backfill.downstream import Stale
    from tidemill.backfill.downstream_done import DownstreamDone
    from tidemill.backfill.plan import BackfillPlan


def downstream(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    digest: Digest,
    apply: Annotated[bool, typer.Option("--apply", help="Reprocess the tables in this order.")] = False,
    approved_by: ApprovedBy = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show stale downstream tables of a finished backfill. With --apply, reprocess them in order.

    Each part is a separate backfill. After a kill or a refusal, the same command continues with the rest.
    """
    from tidemill.backfill.downstream import stale_behind
    from tidemill.backfill.downstream_done import finished_at, read_done
    from tidemill.backfill.progress import read_progress

    invocation = invocation_of(context)
    plane, plan = plan_of_digest(invocation, pipeline, digest)
    behind = finished_at(plan, read_progress(plane.store, plane.layout, pipeline, digest))
    done = read_done(plane.store, plane.layout, plan, behind)
    parts = stale_behind(plane.store, invocation.pipeline(pipeline), plan.bounds.times)
    left = [part for part in parts if part.pipeline not in done.pipelines]
    if as_json:
        print_json([part.as_document() for part in left])
    elif not any(part.way != "nothing" for part in left):
        say(f"Nothing is left to do behind plan {digest}.")
    elif apply:
        _carry_out(invocation, plan, left, done, approved_by)
    else:
        for line in (line for part in left for line in part.lines()):
            say(line)
        say(f"To do it in this order: tidemill backfill downstream {pipeline} --plan {digest} --apply")


def _carry_out(
    invocation: Invocation,
    plan: BackfillPlan,
    parts: Sequence[Stale],
    done: DownstreamDone,
    approved_by: str,
) -> None:
    """Carry out the parts one after the other and record each.

    After a kill between a backfill and its record, the backfill is repeated, which changes no row.
    """
    from tidemill.backfill.downstream_done import keep_done
    from tidemill.cli.backfill import run_backfill

    plane = invocation.control_plane()
    for part in _possible(parts):
        start, end = (at.isoformat() for at in part.range or ())
        ranges = (start, end, None, None)
        run_backfill(invocation, part.pipeline, ranges, apply=True, approved_by=approved_by)
        done = done.model_copy(update={"pipelines": (*done.pipelines, part.pipeline)})
        keep_done(plane.store, plane.layout, plan, done)
    if any(part.pipeline not in done.pipelines and part.way != "nothing" for part in parts):
        raise typer.Exit(1)


def _possible(parts: Sequence[Stale]) -> Iterator[Stale]:
    """Yield the parts that can be reprocessed now, because no table that they read is stale.

    A pipeline that reads a change feed catches up by itself, and this command does not wait for it.
    """
    stale: set[str] = set()
    for part in parts:
        waits_for = sorted(stale.intersection(part.reads))
        if part.way == "backfill" and not waits_for:
            yield part
            continue
        stale.update(part.writes)
        if part.fix:
            first = f"once {', '.join(waits_for)} is right, " if waits_for else ""
            say(f"{part.pipeline} is left to you: {first}{part.fix}")
