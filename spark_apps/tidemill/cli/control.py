"""`tidemill control show | takeover`: show or change the control plane that owns the storage root."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import Apply, ApprovedBy, AsJson, By, Reason
from tidemill.control.procedures.run import Asking, check_approval

if TYPE_CHECKING:
    from tidemill.control.ask.takeover import Takeover


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Owner of the storage root.", no_args_is_help=True, rich_markup_mode=None)
    group.command()(show)
    group.command()(takeover)
    app.add_typer(group, name="control")


def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the control plane that owns the storage root, and this one."""
    from tidemill.checkpoint.root_owner import read_owner

    plane = invocation_of(context).control_plane()
    owner, here = read_owner(plane.store, plane.layout), plane.as_owner()
    if as_json:
        standing = None if owner is None else owner.model_dump(mode="json")
        print_json({"root": plane.layout.root, "owner": standing, "this": here.model_dump(mode="json")})
        return
    whose = "nobody yet; the first start claims it" if owner is None else f"{owner}, on {owner.host}"
    is_own = owner is not None and owner.id == here.id
    say(f"root   {plane.layout.root}")
    say(f"owner  {'this control plane' if is_own else whose}")
    say(f"this   {here}, on {here.host}")


def takeover(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    as_json: AsJson = False,
) -> None:
    """Make this control plane the owner of the storage root."""
    from tidemill.control.ask.takeover import plan_takeover, take_over

    invocation = invocation_of(context)
    plane = invocation.control_plane()
    asking = Asking("takeover", (), by, invocation.command, approved_by, reason)
    now = datetime.now(UTC)
    plan = plan_takeover(plane, now)
    acts = apply and plan.has_work
    if not as_json:
        for line in plan.lines(now):
            say(line)
    if acts:
        if plane.environment.spec.protected:
            check_approval(asking, plane.environment)
        take_over(plane, plan, asking.person, reason)
    if as_json:
        print_json({"applied": acts, "plan": _document(plan)})
    elif acts:
        say("Done.")
    else:
        say("Nothing was done." if apply else "Nothing was done. With --apply it is carried out.")


def _document(plan: Takeover) -> dict[str, Any]:
    return {
        "root": plan.root,
        "before": None if plan.before is None else plan.before.model_dump(mode="json"),
        "damage": plan.damage or None,
        "after": plan.after.model_dump(mode="json"),
        "fenced": list(plan.fenced),
        "alive": [status.model_dump(mode="json") for status in plan.alive],
    }
