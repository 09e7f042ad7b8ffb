"""`tidemill checkpoint release`: end a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.procedure_run import Apply, ApprovedBy, AsJson, Asked, By, Name, Reason, check_allowed

if TYPE_CHECKING:
    from tidemill.checkpoint.holds import Hold


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(release)


def release(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    hold: Annotated[str | None, typer.Argument(help="Id of the hold; without one, all are shown.")] = None,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    force: Annotated[bool, typer.Option("--force", help="Give up the unfinished verb behind it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Release a hold, so that the pipeline may start."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import check_releasable, releasable
    from tidemill.checkpoint.verbs.release import release as let_go
    from tidemill.storage.store import Store

    resolved = invocation_of(context).pipeline(pipeline)
    asked = Asked(invocation_of(context), "release", pipeline, (hold or "",), apply, by, reason, approved_by)
    store, layout = Store(resolved.layout.root), resolved.layout
    if hold is None:
        found = releasable(store, layout, pipeline)
    elif apply:
        check_allowed(asked, resolved, forbids_starts=False)
        found = [let_go(store, layout, pipeline, Hold(id=hold, by=asked.person, why=reason), force=force)]
    else:
        found = [check_releasable(store, layout, pipeline, hold, force=force)]
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
        return
    if found:
        print_table(("hold", "by", "since (UTC)", "why", "to do"), (_row(one) for one in found))
    say(_ending(pipeline, bool(found), apply and hold is not None))


def _row(hold: Hold) -> tuple[object, ...]:
    return hold.id, hold.by, hold.at, hold.why, hold.to_do


def _ending(pipeline: str, any_found: bool, done: bool) -> str:
    if done:
        return "Released."
    if not any_found:
        return f"{pipeline} is not held."
    return "Nothing was done. With the id of a hold and --apply it is released."
