"""`tidemill checkpoint prune`: move to the trash what nobody needs any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.procedure_run import (
    Apply,
    ApprovedBy,
    AsJson,
    Asked,
    By,
    Name,
    Reason,
    RequestId,
    VerbParts,
    run_procedure,
)

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.prune import Keep, PruneFacts
    from tidemill.spec.project import Pipeline
    from tidemill.storage.store import Store

Generations = Annotated[int, typer.Option(min=0, help="Old generations that stay.")]
Backups = Annotated[int, typer.Option(min=1, help="Complete backups that stay.")]
Records = Annotated[int, typer.Option(min=1, help="Receipts, epochs and journal entries that stay, each.")]
TrashDays = Annotated[float, typer.Option(min=0, help="Days until trash is deleted.")]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(prune)


def prune(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    generations: Generations = 2,
    backups: Backups = 3,
    records: Records = 100,
    trash_days: TrashDays = 7,
    apply: Apply = False,
    reason: Reason = "hygiene",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Move old generations, backups and records to the trash; may run beside a stream."""
    from tidemill.checkpoint.verbs.prune import Keep, plan_prune, prune_steps
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    store, layout = Store(resolved.layout.root), resolved.layout
    keep = Keep(generations, backups, records, timedelta(days=trash_days))
    asked = Asked(
        invocation, "prune", pipeline, _words(keep), apply, by, reason, approved_by, request_id, as_json
    )
    parts = VerbParts(
        lambda: plan_prune(_facts(store, resolved), keep),
        lambda request, plan: prune_steps(store, layout, request, plan),
        _lines,
        verify=lambda: None,
        forbids_starts=False,
        has_work=lambda plan: bool(plan["moves"] or plan["deletes"]),
    )
    run_procedure(asked, resolved, parts)


def _words(keep: Keep) -> tuple[str, ...]:
    days = keep.trash / timedelta(days=1)
    numbers = {
        "--generations": keep.generations,
        "--backups": keep.backups,
        "--records": keep.records,
        "--trash-days": f"{days:g}",
    }
    return tuple(str(word) for pair in numbers.items() for word in pair)


def _facts(store: Store, pipeline: Pipeline) -> PruneFacts:
    from tidemill.checkpoint.current import read_current, read_history
    from tidemill.checkpoint.procedure.journal import read_journal
    from tidemill.checkpoint.procedure.trash import read_trash
    from tidemill.checkpoint.verbs.backup_manifest import read_manifests
    from tidemill.checkpoint.verbs.prune import PruneFacts

    layout, name = pipeline.layout, pipeline.name
    manifests = read_manifests(store, layout, name)
    return PruneFacts(
        layout.state(name),
        tuple(store.list_files(layout.state(name))),
        read_current(store, layout, name),
        {manifest.backup: manifest.generation for manifest in manifests},
        tuple(read_trash(store, layout, name)),
        tuple(e.request_id for e in read_journal(store, layout, name) if e.state != "begun"),
        datetime.now(UTC),
        frozenset(record.generation for record in read_history(store, layout, name)),
    )


def _lines(plan: Mapping[str, Any]) -> list[str]:
    moved = [f"to the trash: {i['path']}  ({i['files']} files, {i['bytes']} bytes)" for i in plan["moves"]]
    gone = [f"deleted: {i['path']}  ({i['files']} files, {i['bytes']} bytes)" for i in plan["deletes"]]
    return [*moved, *gone] or ["nothing is old enough"]
