"""`tidemill backfill publish | abort`: publish or delete rows that a backfill has staged."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import say
from tidemill.cli.verb_command import ApprovedBy

if TYPE_CHECKING:
    from tidemill.backfill.plan import BackfillPlan
    from tidemill.control.plane import ControlPlane

# Maximum number of runs. A run that was active may have checked for the request just before it was made.
_RUNS = 2

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Digest = Annotated[str, typer.Option("--plan", help="Digest of the plan.")]
Reason = Annotated[str, typer.Option(help="Reason, recorded in the audit.")]


def publish(
    context: typer.Context,
    pipeline: Name,
    digest: Digest,
    reason: Reason = "",
    approved_by: ApprovedBy = "",
) -> None:
    """Write staged rows to the tables, one commit each, while the stream may run. Safe to repeat."""
    from tidemill.cli.foreground import run_in_foreground
    from tidemill.control.ask.bounded_run import backfill_run
    from tidemill.control.backfill_consent import check_consent
    from tidemill.control.procedures.run import Asking
    from tidemill.control.publishing import asked_of, request_publishing

    invocation = invocation_of(context)
    plane, plan = plan_of_digest(invocation, pipeline, digest)
    asking = Asking("publish", (), "", invocation.command, approved_by, reason, group="backfill")
    check_consent(plane, asking)
    if not request_publishing(plane, asked_of(plane, plan, asking.person, reason)):
        say(f"{pipeline}: plan {digest} is published")
        return
    for _ in range(_RUNS):
        run_in_foreground(plane, backfill_run(pipeline, digest))
        if _is_finished(plane, plan):
            return
    say(f"Not published. To go on: tidemill backfill publish {pipeline} --plan {digest}")
    say("Rows that were computed anew meanwhile are staged again, to be verified and published.")
    raise typer.Exit(1)


def abort(context: typer.Context, pipeline: Name, digest: Digest, reason: Reason = "") -> None:
    """Delete staged rows. The tables are not changed."""
    from tidemill.control.publishing import abort as abort_plan
    from tidemill.control.publishing import asked_of

    plane, plan = plan_of_digest(invocation_of(context), pipeline, digest)
    found = abort_plan(plane, asked_of(plane, plan, getpass.getuser(), reason))
    say(f"{pipeline}: {'staged rows were deleted' if found else 'nothing is staged'}, plan {digest}")


def plan_of_digest(invocation: Invocation, name: str, digest: str) -> tuple[ControlPlane, BackfillPlan]:
    """Return the plan with the given digest, and the control plane.

    Raises:
        UsageError: TIDE-BACK-016 if there is no such plan.
    """
    from tidemill.backfill.plan import load_plan

    # Refuses an unknown pipeline and suggests a similar name.
    invocation.pipeline(name)
    plane = invocation.control_plane()
    return plane, load_plan(plane.store, plane.layout, name, digest)


def tell_staged(plane: ControlPlane, plan: BackfillPlan) -> None:
    """Print the next steps if staged rows wait for them."""
    from tidemill.backfill.progress import read_progress
    from tidemill.backfill.staging import next_steps, waits

    progress = read_progress(plane.store, plane.layout, plan.pipeline, plan.digest)
    if progress is not None and waits(plan, progress):
        for line in next_steps(plan):
            say(line)


def _is_finished(plane: ControlPlane, plan: BackfillPlan) -> bool:
    from tidemill.backfill.progress import read_progress

    progress = read_progress(plane.store, plane.layout, plan.pipeline, plan.digest)
    return progress is not None and progress.finished_at is not None
